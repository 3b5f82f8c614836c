package limit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// Checks are limited by account to ten times the events of its plan, in minutes of
// the clock.
func TestChecksAreLimited(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0) // 40 s before the end of its minute
	c := NewChecks(Config{Free: 1, Pro: 2, Enterprise: 3}, func() time.Time { return now })
	alice, bob := schema.NewID(now), schema.NewID(now)
	want := Standing{Allowed: true, Limit: 10, Reset: 1_790_000_040, RetryAfter: 40 * time.Second}
	for left := int64(9); left >= 0; left-- {
		want.Remaining = left
		if diff := cmp.Diff(want, c.Take(alice, account.Free)); diff != "" {
			t.Fatal(diff)
		}
	}
	want.Allowed = false
	if diff := cmp.Diff(want, c.Take(alice, account.Free)); diff != "" {
		t.Error(diff)
	}
	if s := c.Take(bob, account.Pro); !s.Allowed || s.Remaining != 19 {
		t.Errorf("another account: %+v", s)
	}
	now = now.Add(40 * time.Second)
	if s := c.Take(alice, account.Free); !s.Allowed || s.Remaining != 9 || s.Reset != 1_790_000_100 {
		t.Errorf("in the next minute: %+v", s)
	}
}
