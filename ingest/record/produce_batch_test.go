package record

import (
	"reflect"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// A write that is completed keeps no event: it may be spare for long, and an event keeps the memory of its whole request.
func TestCompletedWriteKeepsNoEvent(t *testing.T) {
	t.Parallel()
	b := &batch{producer: &producer{keys: newIdempotencyCache(0, time.Now)}, done: make(chan bool, 2)}
	b.pending.Store(1)
	b.add(Event{Event: new(schema.Event)}, 0)
	w := b.writes[0]
	w.finish(&w.record, nil)
	if !reflect.ValueOf(w.event).IsZero() {
		t.Errorf("it keeps %+v", w.event)
	}
}
