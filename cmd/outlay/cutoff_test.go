package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outlayhq/outlay/schema"
)

// cutOffCost is the cost of each event: 0.01 USD. The cap is 3 USD.
const (
	cutOffCost  schema.NanoUSD = 10_000_000
	cutOffLimit                = 300 * cutOffCost
)

// A replica that is cut off from Kafka keeps what it has in flight leased, also when its cap changes, until Kafka has it; others
// spend what is left.
func TestCapHoldsWhenAReplicaIsCutOffFromKafka(t *testing.T) {
	t.Parallel()
	c := newCutOff(t)
	c.put(cutOffLimit, "UTC")
	sent := c.begin() + c.hold()
	// The cap's time zone changes, so that shares go out of use.
	c.put(cutOffLimit, "Asia/Kolkata")
	var unclear int64
	await(t, "the replica to lease anew", func() bool {
		unclear++
		c.track(c.far, "")
		return c.number(`SELECT count(*) FROM budget_leases`) > 1
	})
	// A lease that could be given to others by now would be: this one, which was closed later, is.
	const witness = `INSERT INTO budget_leases (lease_id, account_id, agent, bucket, epoch, replica_id, granted_nano_usd, closed_at)
		VALUES ($1, $1, 'witness', '2035-01-01', 0, $1, 1, now())`
	id := schema.NewID(time.Now())
	if _, err := c.db.Pool.Exec(t.Context(), witness, id); err != nil {
		t.Fatal(err)
	}
	await(t, "closed leases to be dropped", func() bool { return c.number(`SELECT count(*) FROM budget_leases WHERE lease_id = $1`, id) == 0 })
	confirmed, more := c.exhaust()
	c.kafka.Forward()
	c.checkBound(sent+confirmed, unclear+more, 0)
}

// What a replica that was cut off from Kafka and from the database had in flight is refused when it comes after its leases were given to
// others; the clients have no confirmation, and may send it again.
func TestCapHoldsWhenAReplicaIsCutOffFromEverything(t *testing.T) {
	t.Parallel()
	c := newCutOff(t)
	c.put(cutOffLimit, "UTC")
	stored, held := c.begin(), c.hold()
	c.database.Hold()
	c.awaitRelease()
	confirmed, unclear := c.exhaust()
	c.kafka.Forward()
	c.checkBound(stored+confirmed, unclear, held)
	if got := c.number(`SELECT sum(events)::bigint FROM refused_events WHERE cost_nano_usd > 0`); got < held {
		t.Errorf("%d events are in the ledger of refused ones, want %d at least", got, held)
	}

	c.database.Forward()
	c.put(cutOffLimit+2*cutOffCost, "UTC")
	for _, s := range []*served{c.far, c.near} {
		await(t, "a held event to be confirmed when it is sent again", func() bool { return c.track(s, "held-0") == http.StatusOK })
	}
	await(t, "the event to be stored", func() bool { return c.number(`SELECT count(*) FROM events WHERE idempotency_key = 'held-0'`) == 1 })
}

// A replica that stops while Kafka has not answered leaves its leases open. They are given to others when it is dead, and what
// arrives after that is refused.
func TestCapHoldsWhenAReplicaStopsWithEventsInFlight(t *testing.T) {
	t.Parallel()
	c := newCutOff(t)
	c.put(cutOffLimit, "UTC")
	stored := c.begin()
	c.hold()
	c.far.stop()
	if n := c.number(`SELECT count(*) FROM budget_leases WHERE closed_at IS NULL`); n == 0 {
		t.Error("the replica has closed a lease with events in flight")
	}
	c.awaitRelease()
	confirmed, unclear := c.exhaust()
	c.kafka.Forward()
	const refusedLate = `SELECT sum(refused_late)::bigint FROM intake`
	await(t, "what was held to arrive", func() bool { return c.number(refusedLate) > 0 })
	await(t, "everything to be processed", func() bool { return c.ends() == c.number(`SELECT sum(next_offset)::bigint FROM kafka_offsets`) })
	c.checkBound(stored+confirmed, unclear, c.number(refusedLate))
}

// ends is the number of records in the topic.
func (c *cutOff) ends() (n int64) {
	c.Helper()
	offsets, err := c.admin.ListEndOffsets(c.Context(), c.topic)
	if err != nil {
		c.Fatal(err)
	}
	offsets.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// Events whose acknowledgement is lost are written once.
func TestLostAcknowledgements(t *testing.T) {
	t.Parallel()
	c := newCutOff(t)
	sent := 1 + c.trackConfirmed(c.far)
	for range 3 {
		c.kafka.LoseResponses()
		for range 3 {
			if status := c.track(c.far, ""); status != http.StatusInternalServerError {
				t.Errorf("an event whose acknowledgement is lost is answered %d, want 500", status)
			}
			sent++
		}
		c.kafka.Forward()
		sent += 1 + c.trackConfirmed(c.far)
	}
	await(t, "everything to be stored", func() bool { return c.number(`SELECT count(*) FROM events`) >= sent })
	if stored, written := c.number(`SELECT count(*) FROM events`), c.ends(); stored != sent || written != sent {
		t.Errorf("%d events were sent, %d written and %d stored", sent, written, stored)
	}
}

// A connection to Kafka on which nothing moves any more is given up for another. Until then events are answered 500, and written once.
func TestConnectionThatHangs(t *testing.T) {
	t.Parallel()
	c := newCutOff(t)
	sent := 1 + c.trackConfirmed(c.far)
	c.kafka.HoldPresent()
	began := time.Now()
	if status := c.track(c.far, ""); status != http.StatusInternalServerError {
		t.Errorf("an event on a connection that hangs is answered %d, want 500", status)
	}
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("it is answered after %v", took)
	}
	sent += 2 + c.trackConfirmed(c.far)
	t.Logf("events are confirmed again after %v", time.Since(began).Round(time.Millisecond))
	await(t, "everything to be stored", func() bool { return c.number(`SELECT count(*) FROM events`) >= sent })
	if stored, written := c.number(`SELECT count(*) FROM events`), c.ends(); stored != sent || written != sent {
		t.Errorf("%d events were sent, %d written and %d stored", sent, written, stored)
	}
}
