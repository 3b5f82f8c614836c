package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlayhq/outlay/schema/backoff"
)

// Waits double from the first to the longest, a quarter more or less, however many attempts there were.
func TestWaitDoublesUpToTheLongest(t *testing.T) {
	t.Parallel()
	for attempt, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 1000: 10 * time.Second,
	} {
		for range 1000 {
			if got := backoff.Wait(attempt, time.Second, 10*time.Second); got < want*3/4 || got > want*5/4 {
				t.Fatalf("Wait(%d) = %v, want %v give or take a quarter", attempt, got, want)
			}
		}
	}
}

// Sleep takes its time, and no longer than its context.
func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := backoff.Sleep(t.Context(), time.Minute); err != nil || time.Since(start) != time.Minute {
			t.Errorf("Sleep = %v after %v, want nil after a minute", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := backoff.Sleep(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 61*time.Second {
			t.Errorf("Sleep = %v after %v, want the context's error after a second", err, time.Since(start))
		}
	})
}
