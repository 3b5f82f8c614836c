package lease

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/outlayhq/outlay/schema"
)

// The ledger keeps no text of an event, which is a part of a larger piece of memory, however often the same is refused.
func TestLedgerKeepsTextsOfItsOwn(t *testing.T) {
	l := newLedger()
	events := make([]schema.Event, 3)
	for i := range events {
		events[i] = schema.Event{Agent: strings.Clone("agent"), Model: strings.Clone("model"), Provider: strings.Clone("openai"), ReceivedAt: time.Unix(0, 0)}
		l.add(&events[i])
	}
	if len(l.sums) != 1 {
		t.Fatalf("%d sums, want 1", len(l.sums))
	}
	for k, s := range l.sums {
		if s.events != 3 {
			t.Errorf("%d events are refused, want 3", s.events)
		}
		for i := range events {
			if e := &events[i]; unsafe.StringData(k.agent) == unsafe.StringData(e.Agent) || unsafe.StringData(k.model) == unsafe.StringData(e.Model) {
				t.Errorf("it keeps the texts of event %d", i)
			}
		}
	}
}
