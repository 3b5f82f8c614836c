package schema

import (
	"testing"
	"time"
)

// RFC 3339 lets T and Z be small letters.
func TestParseTime(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 1, 2, 15, 4, 5, 600_000_000, time.UTC)
	for _, text := range []string{"2026-01-02T15:04:05.6Z", "2026-01-02t15:04:05.6z", "2026-01-02t15:04:05.6Z", "2026-01-02T15:04:05.6z", "2026-01-02t16:04:05.6+01:00"} {
		if got, err := ParseTime(text); err != nil || !got.Equal(want) {
			t.Errorf("ParseTime(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "t", "z", "2026-01-02", "2026-01-02z", "2026-01-02tz", "2026-01-02x15:04:05z", "2026-01-02T15:04:05zz", "2026-01-02T15:04:05"} {
		if got, err := ParseTime(text); err == nil {
			t.Errorf("ParseTime(%q) = %v, want an error", text, got)
		}
	}
}
