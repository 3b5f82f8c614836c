package lease

import (
	"strconv"
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

// Ever new agents that are refused by the cap of their account take no more memory, and every event is counted.
func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	l := newLedger()
	const n = 100_000
	taken := l.take()
	for i := range n {
		if i%(n/4) == 0 { // The database is away.
			l.putBack(taken)
			taken = l.take()
		}
		name := strconv.Itoa(i)
		l.add(&schema.Event{Agent: "agent " + name, Model: "model " + name, Provider: name, ReceivedAt: time.Unix(0, 0), Cost: 1})
	}
	l.putBack(taken)
	sums := l.take()
	events := int64(0)
	for _, s := range sums {
		events += s.events
	}
	if most := maxRefusedKeys + maxRefusedAgents + 1; events != n || len(sums) > most {
		t.Errorf("%d events in %d sums, want %d in at most %d", events, len(sums), n, most)
	}
}
