package decode

import (
	"encoding/binary"
	"hash/maphash"
	"math"

	"github.com/outlayhq/outlay/schema"
)

// Fingerprint returns a hash of everything that the client sent of the event except its key. How it is spelled in JSON
// does not matter. The same key with another fingerprint is another event.
func (r *Request) Fingerprint(seed maphash.Seed) uint64 {
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

// writeText writes a text after its length, so that two texts are never taken for another two.
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
