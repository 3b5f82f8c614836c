package ingest

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// recentFor is how long an idempotency key stands for its event.
const recentFor = 24 * time.Hour

// recentWays is how many keys share the places that their hash selects.
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

	mu   sync.Mutex
	sets []*recentSet // made when first needed; none when nothing is remembered
	size int
	// flights are the events that are judged or on their way to Kafka.
	flights map[schema.ID]*flight
	spare   []flight
}

// recentSet has the ids apart from the rest, so that looking for one takes few lines of
// the processor's cache. The zero value of a place is a free one.
type recentSet struct {
	ids    [recentWays]schema.ID
	until  [recentWays]int64 // Unix seconds
	places [recentWays]remembered
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
	return &recent{
		seed: maphash.MakeSeed(), now: now, flights: map[schema.ID]*flight{},
		sets: make([]*recentSet, (limit+recentWays-1)/recentWays),
	}
}

// set returns where an id is kept if anywhere. The id is a hash itself.
func (r *recent) set(id schema.ID) **recentSet {
	if len(r.sets) == 0 {
		return nil
	}
	return &r.sets[binary.BigEndian.Uint32(id[:])%uint32(len(r.sets))]
}

// find returns what was recorded under the key that id stands for, or nil. Holds mu.
func (r *recent) find(id schema.ID) *remembered {
	set := r.set(id)
	if set == nil || *set == nil {
		return nil
	}
	for i := range (*set).ids {
		if (*set).ids[i] == id && r.now().Unix() < (*set).until[i] {
			return &(*set).places[i]
		}
	}
	return nil
}

// remember keeps what Kafka has acknowledged, and returns it. Holds mu.
func (r *recent) remember(a admission) remembered {
	e := a.event
	m := remembered{fingerprint: a.flight.fingerprint, cost: e.Cost, source: e.Source, priceID: e.PriceID}
	set := r.set(a.flight.id)
	if set == nil {
		return m
	}
	if known := r.find(a.flight.id); known != nil {
		return *known // A flight was taken for lost, and the one that is stored came first.
	}
	if *set == nil {
		*set = new(recentSet)
	}
	oldest := 0
	for i, until := range (*set).until {
		if until < (*set).until[oldest] {
			oldest = i
		}
	}
	if (*set).ids[oldest].IsZero() {
		r.size++
	}
	(*set).ids[oldest] = a.flight.id
	(*set).until[oldest] = r.now().Add(recentFor).Unix()
	(*set).places[oldest] = m
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

// writeText writes a text so that its end can be told.
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
