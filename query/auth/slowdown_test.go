package auth_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/outlayhq/outlay/query/auth"
)

// clock is a time that tests move.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

// The waits after failures double up to a bound, and end.
func TestSlowdownDoublesItsWaits(t *testing.T) {
	t.Parallel()
	c := &clock{t: time.Unix(1_800_000_000, 0)}
	s := auth.NewSlowdown(c.now)
	for range 5 {
		if wait := s.Begin("a@b.c", "1.2.3.4"); wait != 0 {
			t.Fatalf("a free try waits %v", wait)
		}
	}
	for i, seconds := range []int{0, 1, 2, 4, 8, 16} {
		want := time.Duration(seconds) * time.Second
		wait := s.Begin("A@b.c", "1.2.3.4")
		if wait != want {
			t.Fatalf("try %d waits %v, want %v", i+6, wait, want)
		}
		c.t = c.t.Add(wait)
		if i > 0 {
			if wait := s.Begin("a@b.c", "1.2.3.4"); wait != 0 {
				t.Fatalf("after its wait, try %d waits %v more", i+6, wait)
			}
		}
	}
	for range 20 {
		wait := s.Begin("a@b.c", "1.2.3.4")
		if wait > 15*time.Minute {
			t.Fatalf("waits %v, more than 15 minutes", wait)
		}
		c.t = c.t.Add(wait)
	}
	c.t = c.t.Add(time.Hour)
	for range 5 {
		if wait := s.Begin("a@b.c", "1.2.3.4"); wait != 0 {
			t.Fatalf("an hour later a try waits %v", wait)
		}
	}
}

// Signing in ends the slowing of the user, who is else held up by strangers for a
// minute at most.
func TestSlowdownSparesTheOwner(t *testing.T) {
	t.Parallel()
	c := &clock{t: time.Unix(1_800_000_000, 0)}
	s := auth.NewSlowdown(c.now)
	for i := range 1000 {
		s.Begin("a@b.c", fmt.Sprint("stranger", i))
	}
	wait := s.Begin("a@b.c", "home")
	if wait == 0 || wait > time.Minute {
		t.Errorf("the owner waits %v, want up to a minute", wait)
	}
	c.t = c.t.Add(wait)
	if wait := s.Begin("a@b.c", "home"); wait != 0 {
		t.Errorf("after the wait the owner waits %v", wait)
	}
	s.Succeed("a@b.c", "home")
	if wait := s.Begin("a@b.c", "home"); wait != 0 {
		t.Errorf("after signing in the owner waits %v", wait)
	}
}

// One address that tries many users is slowed too; a success takes one failure
// back and no more.
func TestSlowdownOfAnAddress(t *testing.T) {
	t.Parallel()
	c := &clock{t: time.Unix(1_800_000_000, 0)}
	s := auth.NewSlowdown(c.now)
	tries := 0
	for s.Begin(fmt.Sprint("user", tries), "1.2.3.4") == 0 {
		if tries++; tries > 100 {
			t.Fatal("a hundred users were tried from one address")
		}
	}
	if tries != 51 {
		t.Errorf("slowed after %d tries, want 51", tries)
	}
	if wait := s.Begin("user1", "4.3.2.1"); wait != 0 {
		t.Errorf("another address waits %v", wait)
	}
}
