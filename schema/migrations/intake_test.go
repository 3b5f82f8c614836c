package migrations_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Of the hours before it was counted, what arrived is taken from spend, and lies where it is looked for, however late it came.
func TestIntakeBeginsWithWhatIsStored(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		if db.Edition != migrations.Plain {
			exec(t, conn, `create extension timescaledb`)
		}
		if err := migrations.MigrateTo(t.Context(), conn, db.Edition, 28); err != nil {
			t.Fatal(err)
		}
		insert(t, conn, event(time.Now()), event(time.Now().Add(-30*day)), event(time.Now().Add(4*time.Minute)))
		exec(t, conn, `update events set received_at = date_trunc('hour', now()) + interval '59 minutes'`)
		exec(t, conn, `
			insert into spend (account_id, agent, bucket, cost_nano_usd, events)
			select account_id, n, date_bin('15 minutes', received_at, timestamptz '2000-01-01 00:00:00+00'), sum(cost_nano_usd), count(*)
			from events, unnest(array[agent, '']) n group by 1, 2, 3`)
		exec(t, conn, `insert into spend (account_id, agent, bucket, cost_nano_usd, events) values ($1, '', date_trunc('hour', now()), 0, 2)`, accountID(1))
		up(t, conn, migrations.Options{})
		got := column[string](t, conn, `
			select format('accepted %s, stored %s, different %s, found %s', accepted, stored, difference,
				(select count(*) from events e where e.account_id = i.account_id and e.ts between i.first_ts and i.last_ts))
			from intake i where hour = date_trunc('hour', now())`)
		if diff := cmp.Diff([]string{"accepted 5, stored 5, different 0, found 3"}, got); diff != "" {
			t.Errorf("intake (-want +got):\n%s", diff)
		}
	})
}
