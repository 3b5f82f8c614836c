package upkeep

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// usage returns all rows of all usage relations.
func usage(t *testing.T, conn *pgx.Conn) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for view := range usageRelations {
		all[view] = column[string](t, conn, selectUsage+view+` order by 1`)
	}
	return all
}

func dropExpired(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	n, err := DropExpired(t.Context(), conn, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What is past its retention is dropped, and its sums stay: by itself, and when rollups are refreshed after it.
func TestDropExpired(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		now := time.Now()
		drops := func(when string, want int) {
			t.Helper()
			if n := dropExpired(t, conn); n != want {
				t.Errorf("%s: %d dropped, want %d", when, n, want)
			}
		}
		up(t, conn, migrations.Options{RawRetention: 90 * day})
		insert(t, db, event(now.Add(-100*day)), event(now.Add(-95*day)), event(now.Add(-80*day)), event(now))
		want := usage(t, conn)
		drops("at first", 2)
		for range 2 {
			if diff := cmp.Diff(want, usage(t, conn)); diff != "" {
				t.Errorf("sums changed:\n%.2000s", diff)
			}
			refresh(t, conn)
		}
		if left := one[int](t, conn, `select count(*) from events`); left != 2 {
			t.Errorf("%d events left, want 2", left)
		}
		drops("a second time", 0)
		up(t, conn, migrations.Options{})
		insert(t, db, event(now.Add(-95*day)))
		drops("without a retention", 0)
	})
}
