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

func stranger(email, address string) auth.Try {
	return auth.Try{Email: email, Address: address, Familiar: func() bool { return false }}
}

// newThrottle returns a Throttle and what its time passes by.
func newThrottle() (*auth.Throttle, *clock) {
	c := &clock{t: time.Unix(1_800_000_000, 0)}
	return auth.NewThrottle(c.now), c
}

func begin(s *auth.Throttle, t auth.Try) time.Duration {
	wait, _ := s.Begin(t)
	return wait
}

func familiar(email, address string) auth.Try {
	return auth.Try{Email: email, Address: address, Familiar: func() bool { return true }}
}

// The waits after failures double up to a bound, and end. The bound is a minute where
// the network has signed in before.
func TestSlowdownDoublesItsWaits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		try     func(email, address string) auth.Try
		longest time.Duration
	}{{"stranger", stranger, 15 * time.Minute}, {"familiar", familiar, time.Minute}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, c := newThrottle()
			for range 6 {
				if wait := begin(s, test.try("A@b.c", "1.2.3.4")); wait != 0 {
					t.Fatalf("a free try waits %v", wait)
				}
			}
			want := time.Second
			for range 20 {
				wait := begin(s, test.try("a@b.c", "1.2.3.4"))
				if wait != want {
					t.Fatalf("waits %v, want %v", wait, want)
				}
				c.t = c.t.Add(wait)
				if wait := begin(s, test.try("a@b.c", "1.2.3.4")); wait != 0 {
					t.Fatalf("after its wait a try waits %v more", wait)
				}
				want = min(2*want, test.longest)
			}
			c.t = c.t.Add(time.Hour)
			if wait := begin(s, test.try("a@b.c", "1.2.3.4")); wait != 0 {
				t.Fatalf("an hour later a try waits %v", wait)
			}
		})
	}
}

// Strangers everywhere who guess one password are slowed together, and do not hold up
// its owner at home; elsewhere the owner waits for a minute at most.
func TestSlowdownSparesTheOwner(t *testing.T) {
	t.Parallel()
	s, c := newThrottle()
	guesses := 0
	for i := range 1000 {
		if begin(s, stranger("a@b.c", fmt.Sprint("stranger", i))) == 0 {
			guesses++
		}
	}
	if guesses != 21 {
		t.Errorf("strangers guessed %d times, want 21", guesses)
	}
	if wait := begin(s, familiar("a@b.c", "home")); wait != 0 {
		t.Errorf("at home the owner waits %v", wait)
	}
	s.Undo(familiar("a@b.c", "home"))
	if wait := begin(s, stranger("a@b.c", "stranger")); wait == 0 {
		t.Error("the owner's sign-in let strangers guess on")
	}
	for range 10 {
		wait := begin(s, stranger("a@b.c", "abroad"))
		if wait > time.Minute {
			t.Fatalf("abroad the owner waits %v, more than a minute", wait)
		}
		if wait == 0 { // The password was right.
			s.Undo(stranger("a@b.c", "abroad"))
		}
		c.t = c.t.Add(wait)
		if wait > 0 {
			begin(s, stranger("a@b.c", "another stranger"))
			c.t = c.t.Add(time.Minute)
		}
		if wait := begin(s, stranger("a@b.c", "abroad")); wait != 0 {
			t.Fatalf("after the wait the owner waits %v", wait)
		}
		s.Undo(stranger("a@b.c", "abroad"))
	}
}

// One network that tries many users is slowed, and who has signed in from it before is
// not. An IPv6 network is as long as what one customer gets.
func TestSlowdownOfANetwork(t *testing.T) {
	t.Parallel()
	s, _ := newThrottle()
	tries := 0
	for begin(s, stranger(fmt.Sprint("user", tries), fmt.Sprintf("2001:db8::%x", tries))) == 0 {
		if tries++; tries > 100 {
			t.Fatal("a hundred users were tried from one network")
		}
	}
	if tries != 51 {
		t.Errorf("slowed after %d tries, want 51", tries)
	}
	if wait := begin(s, familiar("user1", "2001:db8::ffff")); wait != 0 {
		t.Errorf("a user who has signed in from the network waits %v", wait)
	}
	for _, address := range []string{"2001:db8:0:1::1", "4.3.2.1"} {
		if wait := begin(s, stranger("user1", address)); wait != 0 {
			t.Errorf("another network, that of %s, waits %v", address, wait)
		}
	}
}

// A try that came to no answer, because the database was away, is no failure.
func TestSlowdownTakesATryBack(t *testing.T) {
	t.Parallel()
	s, _ := newThrottle()
	for range 100 {
		if wait := begin(s, stranger("a@b.c", "1.2.3.4")); wait != 0 {
			t.Fatalf("waits %v", wait)
		}
		s.Undo(stranger("a@b.c", "1.2.3.4"))
	}
}

// Whoever knows one password of an e-mail address, such as that of a user of another
// account, guesses no faster for signing in with it in between.
func TestSlowdownIsNotResetBySuccess(t *testing.T) {
	t.Parallel()
	s, c := newThrottle()
	guesses := 0
	for range 600 {
		if begin(s, familiar("a@b.c", "1.2.3.4")) == 0 {
			guesses++
		}
		if begin(s, familiar("a@b.c", "1.2.3.4")) == 0 {
			s.Undo(familiar("a@b.c", "1.2.3.4"))
		}
		c.t = c.t.Add(time.Second)
	}
	if guesses > 5+7+10 {
		t.Errorf("%d guesses in ten minutes", guesses)
	}
}

// Whether a network is familiar is asked only when it matters, and once a minute.
func TestSlowdownAsksSeldom(t *testing.T) {
	t.Parallel()
	s, _ := newThrottle()
	asked := 0
	try := auth.Try{Email: "a@b.c", Address: "1.2.3.4", Familiar: func() bool { asked++; return false }}
	for range 6 {
		begin(s, try)
	}
	if asked != 0 {
		t.Errorf("asked %d times before there was a wait", asked)
	}
	for range 100 {
		begin(s, try)
	}
	if asked != 1 {
		t.Errorf("asked %d times, want 1", asked)
	}
}

// A network is what tries are counted for.
func TestNetwork(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "": "", "x": "x",
	} {
		if got := auth.Network(address); got != want {
			t.Errorf("Network(%q) = %q, want %q", address, got, want)
		}
	}
}
