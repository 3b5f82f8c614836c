package ingest

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// An event waits for the linger, however many come meanwhile, if others are under way or
// wait when it comes, and else not.
func TestAccumulatorLetsWaitWhatFindsOthersUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const linger = time.Millisecond
		start := time.Now()
		type sending struct {
			index int
			at    time.Duration
		}
		var got []sending
		a := newAccumulator(linger, func(d *delivery) { got = append(got, sending{d.index, time.Since(start)}) })
		add := func(indexes ...int) {
			var deliveries []*delivery
			for _, index := range indexes {
				deliveries = append(deliveries, &delivery{index: index})
			}
			a.add(deliveries)
		}
		until := func(at time.Duration) {
			time.Sleep(at - time.Since(start))
			synctest.Wait()
		}
		add()
		add(0, 1) // nothing is under way
		add(2)    // two are
		until(linger / 2)
		add(3, 4)
		a.finished(1)
		a.finished(1)
		add(5) // nothing is under way, but others wait
		until(linger * 2)
		add(6) // four are under way
		until(linger * 4)
		for range 5 {
			a.finished(1)
		}
		add(7) // nothing again
		until(linger * 9)
		want := []sending{{0, 0}, {1, 0}, {2, linger}, {3, linger}, {4, linger}, {5, linger}, {6, 3 * linger}, {7, 4 * linger}}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(sending{})); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

func TestAccumulatorWithoutLingerSendsAtOnce(t *testing.T) {
	t.Parallel()
	sent := 0
	a := newAccumulator(0, func(*delivery) { sent++ })
	for range 3 {
		a.add([]*delivery{{}})
	}
	if sent != 3 {
		t.Errorf("%d of 3 were sent", sent)
	}
}

// However requests and acknowledgements fall together, each event is sent once, after
// those before it in its request.
func TestAccumulatorSendsEachOnce(t *testing.T) {
	t.Parallel()
	const clients, each = 64, 200
	var sent [clients * each]atomic.Int64
	var first [clients * each]bool // of its request
	var a *accumulator
	var left atomic.Int64
	done := make(chan bool)
	left.Store(clients * each)
	a = newAccumulator(50*time.Microsecond, func(d *delivery) {
		if n := sent[d.index].Add(1); n != 1 {
			t.Errorf("event %d was sent %d times", d.index, n)
		}
		if !first[d.index] && sent[d.index-1].Load() == 0 {
			t.Errorf("event %d was sent before the one before it", d.index)
		}
		go func() {
			if d.index%3 == 0 {
				time.Sleep(time.Duration(rand.IntN(int(time.Millisecond))))
			}
			a.finished(1)
			if left.Add(-1) == 0 {
				close(done)
			}
		}()
	})
	for client := range clients {
		go func() {
			for i := 0; i < each; {
				var deliveries []*delivery
				for n := range min(1+rand.IntN(5), each-i) {
					deliveries = append(deliveries, &delivery{index: client*each + i})
					first[client*each+i] = n == 0
					i++
				}
				a.add(deliveries)
			}
		}()
	}
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%d events were not sent and settled within a minute", left.Load())
	}
	if n := a.underway.Load(); n != 0 {
		t.Errorf("%d are under way when all are settled", n)
	}
}
