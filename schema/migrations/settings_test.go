package migrations_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Settings and policies follow Options at each Up.
func TestUpAppliesSettings(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.DatabaseOf(t, migrations.Community))
	const policies = `
		select format('%s %s %s', proc_name, hypertable_name, config ->> 'compress_after') as policy
		from timescaledb_information.jobs where job_id >= 1000 order by 1`
	const others = `
		select format('chunks of %s, retention %s', time_interval, raw_retention)
		from timescaledb_information.dimensions, schema_settings where hypertable_name = 'events'`

	for _, step := range []struct {
		opt            migrations.Options
		others, policy string
	}{
		{migrations.Options{}, "chunks of 1 day, retention ", "policy_compression events 168:00:00"},
		{
			migrations.Options{ChunkInterval: time.Hour, CompressAfter: 2 * day, RawRetention: 60 * day},
			"chunks of 01:00:00, retention 1440:00:00", "policy_compression events 48:00:00",
		},
		{migrations.Options{}, "chunks of 1 day, retention ", "policy_compression events 168:00:00"},
	} {
		up(t, conn, step.opt)
		if diff := cmp.Diff([]string{step.policy}, column[string](t, conn, policies)); diff != "" {
			t.Errorf("policies of %+v (-want +got):\n%s", step.opt, diff)
		}
		if got := one[string](t, conn, others); got != step.others {
			t.Errorf("settings of %+v = %q, want %q", step.opt, got, step.others)
		}
	}
}

// What cannot be kept is refused before anything is made.
func TestUpRefusesSettings(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.Empty(t, migrations.Plain))
	for name, opt := range map[string]migrations.Options{
		"retention too short": {RawRetention: 46*day - time.Hour},
		"negative retention":  {RawRetention: -day},
		"negative chunks":     {ChunkInterval: -day},
	} {
		opt.Log = quiet
		if err := migrations.Up(t.Context(), conn, opt); err == nil {
			t.Errorf("%s: Up = nil, want an error", name)
		}
	}
	if n := one[int](t, conn, `select count(*) from pg_tables where schemaname = 'public'`); n != 0 {
		t.Errorf("a refused Up made %d tables", n)
	}
}

// Accounts cannot keep events for less time than events may be late, nor longer than the installation keeps them.
func TestAccountRetentionIsChecked(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		up(t, conn, migrations.Options{RawRetention: 400 * day})
		exec(t, conn, `insert into accounts (id, name) values ('00000000-0000-0000-0000-000000000001', 'test')`)
		exec(t, conn, `insert into account_retention (account_id, retention_days, updated_at)
			values ('00000000-0000-0000-0000-000000000001', 60, now())`)
		for _, days := range []int{1, 45, 401} {
			_, err := conn.Exec(t.Context(), `update account_retention set retention_days = $1`, days)
			var pgErr *pgconn.PgError
			if !errors.As(err, &pgErr) || pgErr.Code != "OL004" {
				t.Errorf("%d days: %v, want OL004", days, err)
			}
		}
		exec(t, conn, `update account_retention set retention_days = 46`)
	})
}

// Tables outside of schema public would be found by nobody.
func TestUpRefusesAnotherSearchPath(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.Empty(t, migrations.Plain))
	exec(t, conn, `create schema elsewhere`)
	exec(t, conn, `set search_path to elsewhere, public`)
	if err := migrations.Up(t.Context(), conn, migrations.Options{Log: quiet}); !errors.Is(err, migrations.ErrSearchPath) {
		t.Errorf("Up = %v, want ErrSearchPath", err)
	}
}
