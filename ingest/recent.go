package ingest

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// recentFor is how long an idempotency key stands for its event.
const recentFor = 24 * time.Hour

// recentWays is how many keys share the places that their hash selects: as many as a
// word has bytes.
const recentWays = 8

// recent remembers events with an idempotency key that Kafka has acknowledged,
// never others, so that a retry is answered as the first was and neither written
// nor charged again; and it knows those that are on their way. Its size is fixed: a new key pushes out the oldest of the few
// that it shares its places with. What is forgotten, and what other replicas took,
// is recorded once all the same: the processor sees to it. It is safe for
// concurrent use.
type recent struct {
	seed maphash.Seed
	now  func() time.Time

	mu sync.Mutex
	// sets are made when first needed; there are none when nothing is remembered.
	sets []*recentSet
	// marks has eight bytes for each set: a part of the id in each of its places, or 0
	// for a free one. Most ids that are not known are found to be new by them alone, out of
	// memory that is close.
	marks []uint64
	// turns is which place of each set is used next: the oldest.
	turns []uint8
	size  int
	// flights are the events that are judged or on their way to Kafka.
	flights map[schema.ID]*flight
	spare   []flight
}

type recentSet [recentWays]recentPlace

type recentPlace struct {
	id    schema.ID
	until int64 // Unix seconds
	remembered
}

// remembered is what a retry does not say itself.
type remembered struct {
	fingerprint uint64
	cost        schema.NanoUSD
	source      schema.CostSource
	priceID     string // of the price book, not a copy
}

// newRecent returns one that remembers about limit keys.
func newRecent(limit int, now func() time.Time) *recent {
	sets := (limit + recentWays - 1) / recentWays
	return &recent{
		seed: maphash.MakeSeed(), now: now, flights: map[schema.ID]*flight{},
		sets: make([]*recentSet, sets), marks: make([]uint64, sets), turns: make([]uint8, sets),
	}
}

// set returns the number of the set in which an id is kept if anywhere, and what marks
// it there. The id is a hash itself.
func (r *recent) set(id schema.ID) (number int, mark uint8) {
	return int(binary.BigEndian.Uint32(id[:]) % uint32(len(r.sets))), max(id[4], 1)
}

// find returns what was recorded under the key that id stands for, or nil. Holds mu.
func (r *recent) find(id schema.ID) *remembered {
	if len(r.sets) == 0 {
		return nil
	}
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	number, mark := r.set(id)
	other := r.marks[number] ^ uint64(mark)*ones
	// Among the bytes that are found are all that are 0. Some others do no harm.
	for found := (other - ones) &^ other & highs; found != 0; found &= found - 1 {
		p := &r.sets[number][bits.TrailingZeros64(found)/8]
		if p.id == id && r.now().Unix() < p.until {
			return &p.remembered
		}
	}
	return nil
}

// remember keeps what Kafka has acknowledged, and returns it. Holds mu.
func (r *recent) remember(a admission) remembered {
	e, id := a.event, a.flight.id
	m := remembered{fingerprint: a.flight.fingerprint, cost: e.Cost, source: e.Source, priceID: e.PriceID}
	if len(r.sets) == 0 {
		return m
	}
	if known := r.find(id); known != nil {
		return *known // A flight was taken for lost, and the one that is stored came first.
	}
	number, mark := r.set(id)
	if r.sets[number] == nil {
		r.sets[number] = new(recentSet)
	}
	turn := r.turns[number]
	shift := 8 * turn
	if r.marks[number]>>shift&0xff == 0 {
		r.size++
	}
	r.marks[number] = r.marks[number]&^(0xff<<shift) | uint64(mark)<<shift
	r.turns[number] = (turn + 1) % recentWays
	r.sets[number][turn] = recentPlace{id, r.now().Add(recentFor).Unix(), m}
	return m
}

// entries is how many keys are held, those included that are over.
func (r *recent) entries() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size
}

// fingerprint stands for everything that a client says of an event, save its key.
// How it is spelt does not matter.
func (r *request) fingerprint(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, t := range [...]string{
		r.agent.value, r.model.value, r.provider.value, r.sessionID.value, r.step.value, r.parent.value, r.userID.value,
		r.status.value, r.errorType.value, r.accounting.value,
	} {
		writeText(&h, t)
	}
	for _, c := range [...]optionalCount{
		r.input, r.output, r.cacheRead, r.cacheWrite, r.cacheHour, r.reasoning, r.latency,
	} {
		n := c.value
		if !c.given() {
			n = -1
		}
		writeNumber(&h, n)
	}
	cost := schema.NanoUSD(-1)
	if r.costGiven {
		cost = r.cost
	}
	writeNumber(&h, int64(cost))
	at := int64(math.MinInt64)
	if !r.time.IsZero() {
		at = r.time.UnixMicro()
	}
	writeNumber(&h, at)
	for _, tag := range r.tags {
		writeText(&h, tag)
	}
	_, _ = h.Write(r.metadata)
	return h.Sum64()
}

// writeText writes a text so that its end can be found.
func writeText(h *maphash.Hash, text string) {
	writeNumber(h, int64(len(text)))
	_, _ = h.WriteString(text)
}

// writeNumber is maphash.WriteComparable without its detour over reflection.
func writeNumber(h *maphash.Hash, n int64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	_, _ = h.Write(b[:])
}
