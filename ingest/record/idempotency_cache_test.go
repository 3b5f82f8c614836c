package record

import (
	"fmt"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// keyed is an event with an idempotency key that was acknowledged.
func keyed(n int) *Event {
	account := schema.ID{15: 1}
	key := fmt.Sprint("key ", n)
	id := schema.KeyedEventID(account, key)
	return &Event{
		Event:    &schema.Event{ID: id, IdempotencyKey: key, Cost: schema.NanoUSD(n)},
		inflight: &inflight{id: id, fingerprint: uint64(n)},
	}
}

// What is remembered is bounded, the latest stays, and a day later all is forgotten.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	c := newIdempotencyCache(1000, func() time.Time { return at })
	for n := range 20_000 {
		at = at.Add(time.Second)
		c.complete(keyed(n), nil)
	}
	if n := c.entries(); n != 1000 {
		t.Errorf("%d keys held, want 1000", n)
	}
	found := 0
	for n := 19_500; n < 20_000; n++ {
		if m := c.find(keyed(n).ID); m != nil && m.cost == schema.NanoUSD(n) {
			found++
		}
	}
	if found < 450 {
		t.Errorf("%d of the latest 500 are known, want nearly all", found)
	}
	at = at.Add(keyLifetime)
	if m := c.find(keyed(19_999).ID); m != nil {
		t.Errorf("after a day: known %v", m)
	}
	none := newIdempotencyCache(0, time.Now)
	none.complete(keyed(1), nil)
	if none.find(keyed(1).ID) != nil {
		t.Error("a limit of 0 remembers")
	}
}

// An event that is never completed does not block its key for ever.
func TestInflightEndsByItself(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	c := newIdempotencyCache(8, func() time.Time { return at })
	id := schema.ID{1}
	lost, mine, err := c.begin(id, 1)
	if err != nil || !mine {
		t.Fatal(mine, err)
	}
	if _, mine, _ := c.begin(id, 1); mine {
		t.Error("a key is in flight twice at once")
	}
	at = at.Add(maxInflight)
	f, mine, err := c.begin(id, 2)
	if err != nil || !mine {
		t.Fatal(mine, err)
	}
	c.complete(&Event{Event: &schema.Event{ID: id}, inflight: lost}, errTimeout)
	if _, mine, _ := c.begin(id, 2); mine {
		t.Error("the late end of the first ended the second")
	}
	c.complete(&Event{Event: &schema.Event{ID: id, Cost: 7}, inflight: f}, nil)
	if f, mine, err := c.begin(id, 2); mine || err != nil || f.result.cost != 7 {
		t.Errorf("after it was completed: %+v, %v, %v", f, mine, err)
	}
}
