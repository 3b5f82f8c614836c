package lease

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/outlayhq/outlay/schema"
)

// inFlight is an event that was sent to Kafka, which has not answered.
type inFlight struct {
	event  schema.Event
	charge *Charge
	gate   *Gate
	// forgiven says that a reset has taken out what counts of it.
	forgiven bool
}

// takeInFlight takes out one of those that are in flight.
func (w *world) takeInFlight() (f inFlight, ok bool) {
	if len(w.inFlight) == 0 {
		return inFlight{}, false
	}
	i := w.r.IntN(len(w.inFlight))
	f = w.inFlight[i]
	w.inFlight = slices.Delete(w.inFlight, i, i+1)
	return f, true
}

// land lets Kafka have one of the events in flight, however late, and answer its replica, if that is still there. The processor must refuse
// none that is confirmed.
func (w *world) land() {
	w.t.Helper()
	f, ok := w.takeInFlight()
	if !ok {
		return
	}
	refused := w.refusesLate(&f.event, w.end())
	confirmed := slices.Contains(w.gates, f.gate) && f.charge.Confirm()
	if refused && confirmed {
		w.t.Fatal("an event is confirmed that the processor refuses")
	}
	w.late[f.event.ID] = true
	if refused {
		w.kafka = append(w.kafka, f.event)
		return
	}
	before := len(w.passed)
	w.write(f.event)
	if len(w.passed) > before {
		w.passed[before].forgiven = f.forgiven
	}
	w.checkBound()
}

// giveUp ends one of the events in flight without that Kafka gets it.
func (w *world) giveUp() {
	if f, ok := w.takeInFlight(); ok && slices.Contains(w.gates, f.gate) {
		f.charge.Taint()
	}
}

// leasedInFlight is the cost of what is in flight and may count in the present period.
func (w *world) leasedInFlight() (sum schema.NanoUSD) {
	window := w.window()
	for _, f := range w.inFlight {
		if !f.forgiven && window.Contains(f.event.ReceivedAt) {
			sum += f.event.Cost
		}
	}
	return sum
}

// end is the offset of the next record that Kafka gets.
func (w *world) end() int64 { return w.read + int64(len(w.kafka)) }

const selectGivenUp = `
SELECT count(*) FROM (SELECT lease_id, barrier FROM budget_leases UNION ALL SELECT lease_id, barrier FROM released_leases) l
WHERE lease_id = ANY($1) AND (barrier ->> '0')::bigint <= $2`

// refusesLate is whether the processor refuses a late event at an offset.
func (w *world) refusesLate(e *schema.Event, offset int64) bool {
	w.t.Helper()
	if e.Cost == 0 {
		return false
	}
	var leases int
	if err := w.pool.QueryRow(context.Background(), selectGivenUp, e.Leases, offset).Scan(&leases); err != nil {
		w.t.Fatal(err)
	}
	return leases > 0
}

// silence cuts a replica off until the processor takes it for dead. What it has in flight may land all the same.
func (w *world) silence(g *Gate) {
	w.t.Helper()
	self := *g.replica.Load()
	self.heartbeat.boot -= 2 * g.times.ValidFor
	g.replica.Store(&self)
	w.die(self.id)
}

// die lets the processor take a replica for dead.
func (w *world) die(replica schema.ID) {
	w.t.Helper()
	w.exec(`UPDATE ingest_replicas SET seen_at = now() - interval '1 day' WHERE replica_id = $1`, replica)
	w.dead = append(w.dead, replica)
}

// upkeep is what the processor does about leases all the time.
func (w *world) upkeep() {
	w.t.Helper()
	barrier, err := json.Marshal(map[string]int64{strconv.Itoa(0): w.end()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.exec(`UPDATE budget_leases SET barrier = $2 WHERE account_id = $1 AND barrier IS NULL AND (closed_at IS NOT NULL OR replica_id = ANY($3))`,
		w.scope.AccountID, barrier, w.dead)
	w.exec(`SELECT drop_leases(array(SELECT lease_id FROM budget_leases WHERE account_id = $1 AND (barrier ->> '0')::bigint <= $2))`,
		w.scope.AccountID, w.read)
}
