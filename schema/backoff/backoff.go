// Package backoff spaces the attempts at something that failed and may succeed later: a statement that met a lock, a server that
// is away. Waits double, so that what is down is not kept down, and vary at random, so that what failed together does not come
// back together. How many attempts there are, and which errors are worth one, is left to the caller.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Wait returns how long to wait before the next attempt when attempt have failed, counted from 1: first, doubling up to longest,
// each time up to a quarter more or less.
func Wait(attempt int, first, longest time.Duration) time.Duration {
	wait := min(first<<min(max(attempt-1, 0), 20), longest)
	return wait*3/4 + rand.N(wait/2+1)
}

// Sleep waits for d and returns nil, or returns the error of ctx when that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
