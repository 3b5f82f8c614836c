package lease

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// suspended is a world of one replica whose clocks the test moves: boot includes the time in which the machine was suspended.
type suspended struct {
	*world
	g    *Gate
	boot time.Duration
	wall time.Time
}

func newSuspended(t *testing.T) *suspended {
	t.Helper()
	s := &suspended{
		world: newWorld(t, rand.New(rand.NewPCG(0, 0)), schematest.Database(t).Pool, 1000, 1),
		wall:  time.Now().UTC().Truncate(time.Microsecond),
	}
	s.g = s.gates[0]
	s.g.times = budget.Times{}.OrDefault()
	s.g.clock = clock{func() time.Duration { return s.boot }, func() time.Time { return s.wall }}
	s.now = s.wall
	s.beat()
	return s
}

func (s *suspended) beat() {
	s.t.Helper()
	if err := s.g.heartbeat(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// seen returns how many rows a replica has, and whether it was seen since the given time of the database.
func (s *suspended) seen(replica schema.ID, within time.Duration) (rows, lately int) {
	s.t.Helper()
	err := s.pool.QueryRow(s.t.Context(), `SELECT count(*), count(*) FILTER (WHERE seen_at > now() - $2::interval) FROM ingest_replicas WHERE replica_id = $1`,
		replica, within).Scan(&rows, &lately)
	if err != nil {
		s.t.Fatal(err)
	}
	return rows, lately
}

// After a suspension nothing is spent, and nothing that was in flight is confirmed, of leases that may have been given to others, whichever
// clock the suspension shows in; and the replica goes on as another, with leases of its own.
func TestSuspendedReplicaGoesOnAsAnother(t *testing.T) {
	t.Parallel()
	for name, suspend := range map[string]func(*suspended, time.Duration){
		"time since boot": func(s *suspended, d time.Duration) { s.boot += d },
		"calendar":        func(s *suspended, d time.Duration) { s.wall = s.wall.Add(d) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSuspended(t)
			before := s.g.replica.Load().id
			e := s.event(10)
			inFlight, err := s.g.Admit(t.Context(), &e)
			if err != nil {
				t.Fatal(err)
			}
			s.exec(`UPDATE ingest_replicas SET seen_at = now() - interval '121 seconds' WHERE replica_id = $1`, before)
			suspend(s, 121*time.Second)

			next := s.event(10)
			if _, err := s.g.Admit(t.Context(), &next); !errors.Is(err, ErrUnknown) {
				t.Errorf("before its next heartbeat the replica admits with %v, want ErrUnknown", err)
			}
			s.beat()
			if after := s.g.replica.Load().id; after == before {
				t.Error("the replica goes on under the same id")
			}
			if rows, lately := s.seen(before, time.Minute); rows != 1 || lately != 0 {
				t.Errorf("the replica of before has %d rows of which %d are alive, want 1 and 0", rows, lately)
			}
			if inFlight.Confirm() {
				t.Error("an event of before was confirmed")
			}
			if _, err := s.g.Admit(t.Context(), &next); err != nil {
				t.Fatal(err)
			}
			if next.Leases[0] == e.Leases[0] {
				t.Error("an event was charged to the lease of before")
			}
			var same bool
			if err := s.pool.QueryRow(t.Context(), `SELECT bool_or(replica_id = $2) FROM budget_leases WHERE lease_id = $1`, next.Leases[0], before).Scan(&same); err != nil || same {
				t.Errorf("the new lease is of the replica of before: %v, %v", same, err)
			}
		})
	}
}

// A replica that the database has not seen for long is not revived by a heartbeat, even if the replica noticed nothing: after a restore of
// the database, or when its row is gone.
func TestHeartbeatDoesNotReviveAReplica(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]string{
		"not seen for long": `UPDATE ingest_replicas SET seen_at = now() - interval '61 seconds' WHERE replica_id = $1`,
		"row is gone":       `DELETE FROM ingest_replicas WHERE replica_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSuspended(t)
			before := s.g.replica.Load().id
			s.exec(forget, before)
			s.beat()
			after := s.g.replica.Load()
			if after.id == before || !s.g.valid(after) {
				t.Error("the replica did not go on as another")
			}
			if _, lately := s.seen(before, time.Minute); lately != 0 {
				t.Error("the replica of before was revived")
			}
		})
	}
}

// An event is confirmed as long as its replica surely holds its lease, and as long after its arrival as the processor relies on.
func TestConfirmEndsWithTheLease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		wait time.Duration
		beat bool
		want bool
	}{
		{"at once", 0, false, true},
		{"just in time", 9 * time.Second, true, true},
		{"too late after its arrival", 10 * time.Second, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSuspended(t)
			e := s.event(10)
			charge, err := s.g.Admit(t.Context(), &e)
			if err != nil {
				t.Fatal(err)
			}
			s.boot, s.wall = s.boot+c.wait, s.wall.Add(c.wait)
			s.beat()
			if got := charge.Confirm(); got != c.want {
				t.Errorf("Confirm = %v, want %v", got, c.want)
			}
		})
	}
	t.Run("no heartbeat", func(t *testing.T) {
		t.Parallel()
		s := newSuspended(t)
		s.boot += 55 * time.Second
		s.wall = s.wall.Add(55 * time.Second)
		s.now = s.wall
		e := s.event(10)
		charge, err := s.g.Admit(t.Context(), &e)
		if err != nil {
			t.Fatal(err)
		}
		s.boot += 5 * time.Second
		if charge.Confirm() {
			t.Error("an event was confirmed 60 s after the last heartbeat")
		}
	})
}

// held returns whether a lease is open and how much the database counts as leased of it.
func (w *world) held(lease schema.ID) (open bool, held int64) {
	w.t.Helper()
	err := w.pool.QueryRow(w.t.Context(), `SELECT closed_at IS NULL, (granted_nano_usd - returned_nano_usd - used_nano_usd)::bigint
		FROM budget_leases WHERE lease_id = $1`, lease).Scan(&open, &held)
	if err != nil {
		w.t.Fatal(err)
	}
	return open, held
}

// A share that is out of use gives back what is not charged at once, and stays open until nothing of it is in flight.
func TestShareStaysOpenWhileItsEventsAreInFlight(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		charge func(*Charge)
		held   int64
	}{
		"confirmed": {func(c *Charge) { c.Confirm() }, 30},
		"refunded":  {(*Charge).Refund, 20},
		"tainted":   {(*Charge).Taint, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, rand.New(rand.NewPCG(0, 0)), schematest.Database(t).Pool, 1000, 1)
			g := w.gates[0]
			var charges []*Charge
			var lease schema.ID
			for range 3 {
				e := w.event(10)
				charge, err := g.Admit(t.Context(), &e)
				if err != nil {
					t.Fatal(err)
				}
				charges, lease = append(charges, charge), e.Leases[0]
			}
			charges[0].Confirm()
			w.zone = "Asia/Kolkata" // The cap has other leases in another time zone.
			w.period = budget.Day
			w.put()
			w.reload()
			for range 2 {
				g.sweepOnce(t.Context())
				if open, held := w.held(lease); !open || held != 30 {
					t.Fatalf("with events in flight: open %v, held %d, want true, 30", open, held)
				}
			}
			end.charge(charges[1])
			charges[2].Confirm()
			g.sweepOnce(t.Context())
			if open, held := w.held(lease); open || held != end.held {
				t.Errorf("with nothing in flight: open %v, held %d, want false, %d", open, held, end.held)
			}
		})
	}
}
