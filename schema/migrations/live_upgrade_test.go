package migrations_test

import (
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// The live sums hold what was stored before there were any and is not materialised yet, and a processor of before can store nothing
// that they would lack.
func TestLiveSumsBeginWithWhatIsStored(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		if db.Edition != migrations.Plain {
			exec(t, conn, `create extension timescaledb`)
		}
		if err := migrations.MigrateTo(t.Context(), conn, db.Edition, 32); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		insert(t, conn, randomEvents(300, now.Add(-3*day), now)...)
		if db.Edition == migrations.Community {
			for view, behind := range map[string]string{"usage_15m": "2 hours", "usage_hourly": "1 day", "usage_daily": "1 day"} {
				exec(t, conn, `call refresh_continuous_aggregate($1::regclass, null, now() - $2::interval)`, view, behind)
			}
		}
		const store = `select move_positions('t', '{}', '{}', '{}', null)`
		exec(t, conn, store)
		up(t, conn, migrations.Options{})
		checkUsage(t, conn)
		if _, err := conn.Exec(t.Context(), store); err == nil {
			t.Error("a processor of before can still store events")
		}
		insert(t, conn, randomEvents(50, now.Add(-30*time.Minute), now)...)
		checkUsage(t, conn)
		settleAll(t, conn)
		checkUsage(t, conn)
	})
}

// Events that were changed by hand are in the live sums once those are made anew.
func TestLiveSumsAreMadeAnew(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := still(t, db)
		now := time.Now()
		insert(t, conn, randomEvents(200, now.Add(-3*day), now)...)
		settleAll(t, conn)
		exec(t, conn, `delete from events where ts >= now() - interval '50 minutes' and cost_nano_usd % 2 = 0`)
		exec(t, conn, `select rebuild_usage_live()`)
		checkUsage(t, conn)
	})
}

// Updates of the extension drop tables of its catalog and make them anew, which fails where a view of ours names one.
func TestNoViewKeepsTheExtensionFromUpdates(t *testing.T) {
	t.Parallel()
	conn := still(t, schematest.DatabaseOf(t, migrations.Community))
	const selectViews = `
		select distinct v.oid::regclass::text
		from pg_depend d
		join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
		join pg_class v on v.oid = r.ev_class
		join pg_class c on d.refclassid = 'pg_class'::regclass and c.oid = d.refobjid
		where c.relnamespace in ('_timescaledb_catalog'::regnamespace, '_timescaledb_config'::regnamespace)
			and not exists (select from pg_depend e where e.classid = 'pg_class'::regclass and e.objid = v.oid and e.deptype = 'e')`
	if views := column[string](t, conn, selectViews); len(views) > 0 {
		t.Errorf("views %q name tables of the extension", views)
	}
}
