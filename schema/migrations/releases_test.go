package migrations

import "testing"

// The releases in which scheduled jobs do not run are known by both version numbers.
func TestJobsBroken(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		postgres, timescale string
		want                bool
	}{
		{"15.18", "2.27.2", false},
		{"15.20", "2.27.2", true},
		{"15.21", "2.27.2", true},
		{"15.20", "2.27.3", false},
		{"16.15", "2.28.1", false},
		{"16.16", "2.28.4", true},
		{"16.16", "2.28.5", false},
		{"17.12", "2.29.0", true},
		{"17.12", "2.31.1", true},
		{"17.12", "2.31.2", false},
		{"18.7", "2.9.3", true},
		{"18.6", "2.31.1", false},
		{"18.7", "3.0.0", false},
		{"19.1", "2.31.1", false},
		{"18beta1", "2.31.1", false},
		{"18.7", "", false},
	} {
		s := Server{Edition: Community, PostgresVersion: tc.postgres, TimescaleVersion: tc.timescale}
		if got := jobsBroken(s); got != tc.want {
			t.Errorf("jobsBroken(PostgreSQL %s, TimescaleDB %s) = %v, want %v", tc.postgres, tc.timescale, got, tc.want)
		}
	}
}
