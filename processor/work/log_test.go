package work

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/schematest"
)

// River's complaints are quiet while the database is away, and not when all connections are in use.
func TestRiverIsQuietOnlyWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url        string
		used, want bool
	}{
		"free": {schematest.Database(t).URL, false, true},
		"busy": {schematest.Database(t).URL, true, true},
		"away": {"postgres://outlay:secret@127.0.0.1:1/outlay", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := pgxpool.ParseConfig(c.url)
			if err != nil {
				t.Fatal(err)
			}
			cfg.MaxConns = 1
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			if c.used {
				conn, err := pool.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(conn.Release)
			}
			var log strings.Builder
			quiet(slog.New(slog.NewTextHandler(&log, nil)), pool).WarnContext(t.Context(), "it failed")
			if got := log.Len() > 0; got != c.want {
				t.Errorf("logged %v, want %v", got, c.want)
			}
		})
	}
}
