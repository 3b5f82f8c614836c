package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema/account"
)

// loginFrom signs in through a proxy that appends to X-Forwarded-For.
func (w *world) loginFrom(forwarded, email, secret string) *answer {
	w.t.Helper()
	body, err := json.Marshal(map[string]string{"email": email, "password": secret})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.ask(http.MethodPost, "/v1/auth/login", string(body), "Content-Type", "application/json", "X-Forwarded-For", forwarded)
}

// behindProxy is a server whose clock stands still and whose clients come through a proxy.
func behindProxy(at time.Time) func(*query.Config) {
	return func(c *query.Config) {
		c.Now = func() time.Time { return at }
		c.TrustedProxies = []string{"127.0.0.0/8"}
		c.ConcurrentSignIns = 2
	}
}

// Strangers who guess at an owner's password, from one address or many, do not keep
// the owner out, who has signed in from home before; on no replica.
func TestStrangersDoNotLockTheOwnerOut(t *testing.T) {
	t.Parallel()
	at := time.Now()
	pool := database(t)
	w := newWorldWith(t, pool, behindProxy(at))
	w.loginFrom("192.0.2.7", "alice@example.com", password).want(http.StatusOK)
	other := newServer(t, pool, behindProxy(at))
	for _, replica := range []*world{w, other} {
		refused := 0
		for i := range 30 {
			if replica.loginFrom(fmt.Sprintf("198.51.100.%d", i), "alice@example.com", "wrong password").status == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused != 30-21 {
			t.Errorf("of 30 strangers' guesses %d were slowed, want 9", refused)
		}
		replica.loginFrom("203.0.113.1", "alice@example.com", password).refused(http.StatusTooManyRequests)
		replica.loginFrom("192.0.2.7", "Alice@example.com", password).want(http.StatusOK)
	}
}

// A stranger behind the same proxy, whose addresses nobody tells apart, does not lock out
// those who have signed in through it, nor the owner of another e-mail address.
func TestStrangerBehindTheSameProxy(t *testing.T) {
	t.Parallel()
	at := time.Now()
	w := newWorldWith(t, database(t), func(c *query.Config) {
		behindProxy(at)(c)
		c.TrustedProxies = nil
	})
	w.bob.colleague("carol@example.com", account.Viewer)
	w.login("carol@example.com", password).want(http.StatusOK)
	slowed := 0
	for i := range 60 {
		// A header that nobody vouches for changes nothing.
		if w.loginFrom(fmt.Sprintf("192.0.2.%d", i), fmt.Sprintf("user%d@example.com", i), "wrong password").status == http.StatusTooManyRequests {
			slowed++
		}
	}
	if slowed == 0 {
		t.Error("sixty users were tried from one address and none was slowed")
	}
	w.login("carol@example.com", password).want(http.StatusOK)
	w.login("bob@example.com", password).refused(http.StatusTooManyRequests)
}

// The client is the right-most address of X-Forwarded-For that is no trusted proxy:
// what a client writes in front of it, or into another header, gives it no new tries.
func TestClientAddressCannotBeMadeUp(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, database(t), behindProxy(time.Now()))
	slowed := 0
	for i := range 10 {
		answer := w.ask(http.MethodPost, "/v1/auth/login", `{"email":"alice@example.com","password":"wrong password"}`,
			"Content-Type", "application/json", "X-Forwarded-For", fmt.Sprintf("192.0.2.%d, 203.0.113.9, 127.0.0.5", i),
			"X-Real-IP", fmt.Sprintf("192.0.2.%d", i), "Forwarded", fmt.Sprintf("for=192.0.2.%d", i))
		if answer.status == http.StatusTooManyRequests {
			slowed++
		}
	}
	if slowed != 4 {
		t.Errorf("of ten guesses from one address %d were slowed, want 4", slowed)
	}
	w.loginFrom("192.0.2.7", "alice@example.com", password).want(http.StatusOK)
}

// Whoever guesses share links is stopped, and those behind the same address still open
// the links that somebody has opened before. One link is not opened without end either.
func TestShareLinksAreRateLimited(t *testing.T) {
	t.Parallel()
	at := time.Now() // One minute, however long the requests take.
	w := newWorldWith(t, database(t), behindProxy(at))
	w.store(w.alice.newEvent(nil))
	link := "/v1/share/" + w.alice.share("one", "").Token
	open := func(path, from string) *answer { return w.ask(http.MethodGet, path, "", "X-Forwarded-For", from) }
	open(link, "192.0.2.1").want(http.StatusOK)
	limited := 0
	for i := range 100 {
		answer := open(fmt.Sprintf("/v1/share/%032d", i), "192.0.2.1")
		if answer.status == http.StatusTooManyRequests {
			limited++
			continue
		}
		answer.refused(http.StatusNotFound)
	}
	if limited != 100-60 {
		t.Errorf("of 100 links that were tried from one address %d were refused, want 40", limited)
	}
	opened := 1
	for opened < 200 && open(link, "192.0.2.1").status == http.StatusOK {
		opened++
	}
	if opened != 120 {
		t.Errorf("one address opened a link %d times in a minute, want 120", opened)
	}
	open(link, "192.0.2.2").want(http.StatusOK)
	open(fmt.Sprintf("/v1/share/%032d", 1), "192.0.2.2").refused(http.StatusNotFound)
}
