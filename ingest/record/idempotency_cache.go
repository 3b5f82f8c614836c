package record

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// keyLifetime is how long an idempotency key stands for its event.
const keyLifetime = 24 * time.Hour

// setSize is how many keys share the places that their hash selects: as many as a word has bytes.
const setSize = 8

// idempotencyCache remembers events with an idempotency key that Kafka has acknowledged, never others, so that a retry
// is answered as the first was and neither written nor charged again; and it knows those in flight. Its size is fixed:
// a new key replaces the oldest of the few that it shares its places with. What is forgotten, and what other replicas
// recorded, is recorded once all the same: the processor drops the second. It is safe for concurrent use.
type idempotencyCache struct {
	seed maphash.Seed // of fingerprints
	now  func() time.Time

	mu sync.Mutex
	// sets are allocated when first needed; there are none when nothing is remembered.
	sets []*cacheSet
	// marks has eight bytes for each set: a part of the id in each of its places, or 0 for a free one. Most ids that
	// are not known are found to be new by them alone, in one cache line.
	marks []uint64
	// oldest is which place of each set is replaced next.
	oldest []uint8
	size   int
	// inflight are the events that are being checked or written to Kafka.
	inflight map[schema.ID]*inflight
	spare    []inflight
}

type cacheSet [setSize]cachePlace

type cachePlace struct {
	id    schema.ID
	until int64 // Unix seconds
	recorded
}

// recorded is what a retry does not carry itself.
type recorded struct {
	fingerprint uint64
	cost        schema.NanoUSD
	source      schema.CostSource
	priceID     string // of the price book, not a copy
}

// newIdempotencyCache returns one that remembers about limit keys.
func newIdempotencyCache(limit int, now func() time.Time) *idempotencyCache {
	sets := (limit + setSize - 1) / setSize
	return &idempotencyCache{
		seed: maphash.MakeSeed(), now: now, inflight: map[schema.ID]*inflight{},
		sets: make([]*cacheSet, sets), marks: make([]uint64, sets), oldest: make([]uint8, sets),
	}
}

// set returns the number of the set in which an id is kept if anywhere, and what marks
// it there. The id is a hash itself.
func (c *idempotencyCache) set(id schema.ID) (number int, mark uint8) {
	return int(binary.BigEndian.Uint32(id[:]) % uint32(len(c.sets))), max(id[4], 1)
}

// find returns what was recorded under the key that id stands for, or nil. Holds mu.
func (c *idempotencyCache) find(id schema.ID) *recorded {
	if len(c.sets) == 0 {
		return nil
	}
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	number, mark := c.set(id)
	other := c.marks[number] ^ uint64(mark)*ones
	// Among the bytes that are found are all that are 0. Some others do no harm.
	for found := (other - ones) &^ other & highs; found != 0; found &= found - 1 {
		p := &c.sets[number][bits.TrailingZeros64(found)/8]
		if p.id == id && c.now().Unix() < p.until {
			return &p.recorded
		}
	}
	return nil
}

// add remembers an event that Kafka has acknowledged. Holds mu.
func (c *idempotencyCache) add(e *Event) recorded {
	id := e.inflight.id
	m := recorded{fingerprint: e.inflight.fingerprint, cost: e.Cost, source: e.Source, priceID: e.PriceID}
	if len(c.sets) == 0 {
		return m
	}
	if known := c.find(id); known != nil {
		return *known // This one took longer than maxInflight, and the one that is stored came first.
	}
	number, mark := c.set(id)
	if c.sets[number] == nil {
		c.sets[number] = new(cacheSet)
	}
	place := c.oldest[number]
	shift := 8 * place
	if c.marks[number]>>shift&0xff == 0 {
		c.size++
	}
	c.marks[number] = c.marks[number]&^(0xff<<shift) | uint64(mark)<<shift
	c.oldest[number] = (place + 1) % setSize
	c.sets[number][place] = cachePlace{id, c.now().Add(keyLifetime).Unix(), m}
	return m
}

// entries returns how many keys are held, expired ones included.
func (c *idempotencyCache) entries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}
