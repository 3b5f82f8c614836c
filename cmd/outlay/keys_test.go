package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// keyTries is how often each idempotency key is sent.
const keyTries = 10

// keyCount is how many different keys are sent: OUTLAY_E2E_KEYS, or a number that
// fits into a CI run.
func keyCount() int {
	if n, err := strconv.Atoi(os.Getenv("OUTLAY_E2E_KEYS")); err == nil {
		return n
	}
	return 200
}

// keyed are the answers to requests with idempotency keys, by key.
type keyed struct {
	mu  sync.Mutex
	ids map[int]map[string]bool
	// again counts requests without a clear answer, which were sent again.
	again atomic.Int64
}

// However often and wherever a key is sent, with replicas and processors killed at
// random: one event, and always the same id.
func TestKeysAcrossReplicas(t *testing.T) {
	t.Parallel()
	keys := keyCount()
	c := newCapped(t)
	k := keyed{ids: map[int]map[string]bool{}}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		k.send(t.Context(), c, keys)
	}()
	kills := c.killAtRandom(t, sent)
	c.startProcessor(t)
	awaitDrained(t, c)

	distinct := map[string]bool{}
	for key, ids := range k.ids {
		if len(ids) != 1 {
			t.Errorf("key %d was answered with %d ids", key, len(ids))
		}
		for id := range ids {
			distinct[id] = true
		}
	}
	var stored, different, letters int
	const count = `SELECT count(*), count(DISTINCT event_id), (SELECT count(*) FROM dead_letters) FROM events WHERE agent = 'keyed'`
	if err := c.pool.QueryRow(t.Context(), count).Scan(&stored, &different, &letters); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests with %d keys, %d more without a clear answer, %d kills: %d events with %d ids, answered with %d ids",
		keys*keyTries, keys, k.again.Load(), kills, stored, different, len(distinct))
	if len(k.ids) != keys || len(distinct) != keys || stored != keys || different != keys || letters != 0 {
		t.Errorf("%d keys answered, with %d ids; %d events stored, %d different, %d dead letters; want %d and no letter",
			len(k.ids), len(distinct), stored, different, letters, keys)
	}
}

// send sends every key keyTries times in random order to random replicas, each until
// it gets a clear answer.
func (k *keyed) send(ctx context.Context, c *capped, keys int) {
	order := rand.Perm(keys * keyTries)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(order)); i = next.Add(1) - 1 {
				key := order[i] % keys
				for !k.sendOnce(ctx, c, key) && ctx.Err() == nil {
					k.again.Add(1)
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
}

func (k *keyed) sendOnce(ctx context.Context, c *capped, key int) bool {
	var answer struct {
		EventID string `json:"event_id"`
	}
	r := c.replicas[rand.IntN(len(c.replicas))]
	body := fmt.Sprintf(`{"agent":"keyed","cost_usd":0.001,"idempotency_key":"key-%d"}`, key)
	if send(ctx, "http://"+r.listen, c.credentials.APIKey, body, &answer) != http.StatusOK {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ids[key] == nil {
		k.ids[key] = map[string]bool{}
	}
	k.ids[key][answer.EventID] = true
	return true
}

// killAtRandom kills replicas and the processor and starts them again until done is
// closed; then it kills the processor for good. It returns the number of kills.
func (c *capped) killAtRandom(t *testing.T, done <-chan struct{}) (kills int) {
	t.Helper()
	processor := c.startProcessor(t)
	for {
		select {
		case <-done:
			processor.kill()
			return kills
		case <-time.After(100*time.Millisecond + rand.N(600*time.Millisecond)):
		}
		kills++
		if n := rand.IntN(len(c.replicas) + 1); n < len(c.replicas) {
			c.replicas[n].killAndRestart(t)
			continue
		}
		processor.kill()
		processor = c.startProcessor(t)
	}
}
