package migrations_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Settings and policies follow Options at each Up.
func TestUpAppliesSettings(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.DatabaseOf(t, migrations.Community))
	const policies = `
		select format('%s %s %s', proc_name, hypertable_name, coalesce(config ->> 'drop_after', config ->> 'compress_after',
			format('%s to %s in batches of %s', config ->> 'start_offset', config ->> 'end_offset', config ->> 'buckets_per_batch'))) as policy
		from timescaledb_information.jobs where job_id >= 1000 order by 1`
	const others = `
		select format('chunks of %s, late %s, refresh %s, retention %s', time_interval, late_window, refresh_window, raw_retention)
		from timescaledb_information.dimensions, schema_settings where hypertable_name = 'events'`

	for _, step := range []struct {
		opt      migrations.Options
		others   string
		policies []string
	}{
		{
			migrations.Options{},
			"chunks of 1 day, late 888:00:00, refresh 1080:00:00, retention ",
			[]string{
				"policy_compression events 168:00:00",
				"policy_refresh_continuous_aggregate usage_15m 1080:00:00 to 01:15:00 in batches of 0",
			},
		},
		{
			migrations.Options{ChunkInterval: time.Hour, CompressAfter: 2 * day, LateWindow: 3 * day, RefreshWindow: 5 * day, RawRetention: 9 * day},
			"chunks of 01:00:00, late 72:00:00, refresh 120:00:00, retention 216:00:00",
			[]string{
				"policy_compression events 48:00:00",
				"policy_refresh_continuous_aggregate usage_15m 120:00:00 to 01:15:00 in batches of 0",
			},
		},
		{
			migrations.Options{RefreshWindow: 8 * day, LateWindow: day},
			"chunks of 1 day, late 24:00:00, refresh 192:00:00, retention ",
			[]string{
				"policy_compression events 168:00:00",
				"policy_refresh_continuous_aggregate usage_15m 192:00:00 to 01:15:00 in batches of 0",
			},
		},
	} {
		up(t, conn, step.opt)
		if diff := cmp.Diff(step.policies, column[string](t, conn, policies)); diff != "" {
			t.Errorf("policies of %+v (-want +got):\n%s", step.opt, diff)
		}
		if got := one[string](t, conn, others); got != step.others {
			t.Errorf("settings of %+v = %q, want %q", step.opt, got, step.others)
		}
	}
}

// Horizons out of order would lose sums or erase them, so nothing is touched.
func TestUpRefusesHorizonsOutOfOrder(t *testing.T) {
	t.Parallel()
	db := schematest.Empty(t, migrations.Plain)
	conn := connect(t, db)
	for name, opt := range map[string]migrations.Options{
		"late as long as refresh":      {LateWindow: 45 * day, RefreshWindow: 45 * day},
		"less than a day between":      {LateWindow: 30 * day, RefreshWindow: 30*day + 23*time.Hour},
		"retention as long as refresh": {RefreshWindow: 45 * day, RawRetention: 45 * day},
		"retention before late":        {RawRetention: 10 * day},
	} {
		opt.Log = quiet
		if err := migrations.Up(t.Context(), conn, opt); !errors.Is(err, migrations.ErrHorizons) {
			t.Errorf("%s: Up = %v, want ErrHorizons", name, err)
		}
	}
	for name, opt := range map[string]migrations.Options{
		"negative retention": {RawRetention: -day},
		"negative window":    {LateWindow: -day},
		"negative chunks":    {ChunkInterval: -day},
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
