package processor

import (
	"context"
	"maps"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/processor/timescale"
)

// assignment is what this processor believes to own and where it stands. It is
// for metrics and for marking completeness; what may be stored is decided in the
// database alone.
type assignment struct {
	topic string

	mu sync.Mutex
	// next is the offset of the next record by partition, holes the partitions that Kafka deleted records of. mu guards both.
	next  map[int32]int64
	holes map[int32]bool
}

// newAssignment returns the assignment of a processor that owns nothing yet.
func newAssignment(topic string) *assignment {
	return &assignment{topic: topic, next: map[int32]int64{}, holes: map[int32]bool{}}
}

// add notes partitions that were assigned, with the offsets of their next records.
func (a *assignment) add(next map[int32]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.Copy(a.next, next)
}

// remove has the signature of franz-go's callbacks.
func (a *assignment) remove(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, partition := range lost[a.topic] {
		delete(a.next, partition)
		delete(a.holes, partition)
	}
}

// clear forgets everything at the end of a membership.
func (a *assignment) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.next)
	clear(a.holes)
}

// move notes that spans were stored.
func (a *assignment) move(spans []timescale.Span) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range spans {
		if _, owned := a.next[s.Partition]; owned {
			a.next[s.Partition] = s.Next
		}
	}
}

// positions returns a copy of where the owned partitions stand.
func (a *assignment) positions() map[int32]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.next)
}

// stop marks a partition with a hole. It returns false if it is marked already.
func (a *assignment) stop(partition int32) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holes[partition] {
		return false
	}
	a.holes[partition] = true
	return true
}

// stopped returns how many partitions have a hole.
func (a *assignment) stopped() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.holes)
}
