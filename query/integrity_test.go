package query_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

// intake is an hour, or all of them, as the endpoint answers it.
type intake struct {
	Hour         time.Time
	Complete     bool
	Accepted     int64
	Stored       int64
	Duplicates   int64
	DeadLettered int64 `json:"dead_lettered"`
	RefusedLate  int64 `json:"refused_late"`
	Found        *int64
	Difference   int64
}

type integrity struct {
	From, To      time.Time
	Data          []intake
	Totals        intake
	CompleteUntil *time.Time `json:"complete_until"`
}

func (p *person) integrity(query string) (shown integrity) {
	p.t.Helper()
	p.get("/v1/integrity"+query).decode(http.StatusOK, &shown)
	return shown
}

func found(n int64) *int64 { return &n }

// Each hour of arrival is told apart from the time of the calls, and from other accounts'. What
// is missing shows when the events are looked for.
func TestIntegrity(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		hour := w.now.Truncate(time.Hour).Add(-2 * time.Hour)
		at := func(received, called time.Time) schema.Event {
			return w.alice.newEvent(func(e *schema.Event) { e.ID, e.ReceivedAt, e.Time = schema.NewID(received), received, called })
		}
		w.store(
			at(hour, hour), at(hour.Add(time.Hour-time.Microsecond), hour.Add(-20*24*time.Hour)),
			at(hour.Add(time.Hour), hour.Add(time.Hour+4*time.Minute)), w.bob.newEvent(nil),
		)
		w.exec(`UPDATE intake SET accepted = accepted + 5, duplicates = 2, dead_letters = 3 WHERE account_id = $1 AND hour = $2`, w.alice.account, hour)
		w.exec(`INSERT INTO kafka_offsets (topic, partition, next_offset, complete_until) VALUES ('t', 0, 1, $1), ('t', 1, 1, $1)`, hour.Add(time.Hour))

		first := intake{Hour: hour, Complete: true, Accepted: 7, Stored: 2, Duplicates: 2, DeadLettered: 3}
		second := intake{Hour: hour.Add(time.Hour), Accepted: 1, Stored: 1}
		until := hour.Add(time.Hour)
		want := integrity{
			From: hour, To: hour.Add(2 * time.Hour), Data: []intake{first, second},
			Totals: intake{Accepted: 8, Stored: 3, Duplicates: 2, DeadLettered: 3}, CompleteUntil: &until,
		}
		span := "?from=" + hour.Add(time.Minute).Format(time.RFC3339) + "&to=" + hour.Add(61*time.Minute).Format(time.RFC3339)
		check := func(what, query string, want integrity) {
			t.Helper()
			if diff := cmp.Diff(want, w.alice.integrity(query)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		check("as counted", span, want)
		want.Data[0].Found, want.Data[1].Found, want.Totals.Found = found(2), found(1), found(3)
		check("as found", span+"&verify=true", want)

		w.exec(`DELETE FROM events WHERE account_id = $1 AND received_at < $2`, w.alice.account, hour.Add(time.Minute))
		want.Data[0].Found, want.Data[0].Difference, want.Totals.Found, want.Totals.Difference = found(1), 1, found(2), 1
		check("after one was lost", span+"&verify=true", want)

		// What retention took is not lost, and nothing can be said of the rest of its hour.
		w.exec(`UPDATE schema_settings SET raw_retention = interval '10 days'`)
		want.Data[0].Found, want.Data[0].Difference, want.Totals.Found, want.Totals.Difference = nil, 0, nil, 0
		check("after retention", span+"&verify=true", want)

		w.alice.get("/v1/integrity?from=2025-01-01&to=2025-06-01").refused(http.StatusUnprocessableEntity)
	})
}
