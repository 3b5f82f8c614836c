package query_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema"
)

// rate is what the X-RateLimit headers say.
func (a *answer) rate() (r struct{ limit, remaining, reset int64 }) {
	a.t.Helper()
	for name, into := range map[string]*int64{"Limit": &r.limit, "Remaining": &r.remaining, "Reset": &r.reset} {
		n, err := strconv.ParseInt(a.header.Get("X-RateLimit-"+name), 10, 64)
		if err != nil {
			a.t.Fatalf("%s: X-RateLimit-%s: %v", a.what, name, err)
		}
		*into = n
	}
	return r
}

// limited checks a 429 and returns its Retry-After.
func (a *answer) limited() int64 {
	a.t.Helper()
	if code := a.refused(http.StatusTooManyRequests).Code; code != "rate_limited" {
		a.t.Errorf("%s: code %q", a.what, code)
	}
	seconds, err := strconv.ParseInt(a.header.Get("Retry-After"), 10, 64)
	if err != nil || seconds < 1 || seconds > 60 {
		a.t.Errorf("%s: Retry-After %q", a.what, a.header.Get("Retry-After"))
	}
	return seconds
}

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// All users of an account share what its plan allows in a minute, and so do its keys. Every answer says where they stand, other
// accounts are not touched, and the next minute begins anew. What ends a misuse is possible all the same.
func TestRequestsOfAPlan(t *testing.T) {
	t.Parallel()
	limits := query.DefaultLimits()
	limits.Enterprise = 8
	c := clock{now: time.Now().Truncate(time.Minute).Add(70 * time.Second)}
	w := newWorldWith(t, database(t), func(config *query.Config) { config.Limits, config.Now = limits, c.Now })
	vera := w.tokenFor(w.alice.colleague("vera@example.org", viewer))
	reset := c.now.Truncate(time.Minute).Add(time.Minute).Unix()
	var made shownKey
	w.alice.post("/v1/api-keys", `{"name":"r","scopes":["read"]}`).decode(http.StatusCreated, &made)
	key := made.Key
	left := map[bool]int64{true: 8, false: 7} // of keys, and of users
	for _, ask := range []struct {
		token, method, path string
		status              int
	}{
		{w.alice.token, http.MethodGet, "/v1/agents", http.StatusOK},
		{vera, http.MethodGet, "/v1/events", http.StatusOK},
		{key, http.MethodGet, "/v1/account", http.StatusOK},
		{key, http.MethodHead, "/v1/account", http.StatusOK},
		{vera, http.MethodGet, "/v1/audit", http.StatusForbidden},
		{w.alice.token, http.MethodGet, "/v1/agents?limit=", http.StatusUnprocessableEntity},
		{w.alice.token, http.MethodGet, "/v1/events/export", http.StatusOK},
		{vera, http.MethodGet, "/v1/auth/me", http.StatusOK},
		{key, http.MethodGet, "/v1/agents", http.StatusOK},
		{vera, http.MethodGet, "/v1/budgets", http.StatusOK},
	} {
		a := w.send(ask.token, ask.method, ask.path, "")
		a.want(ask.status)
		left[ask.token == key]--
		if got := a.rate(); got.limit != 8 || got.remaining != left[ask.token == key] || got.reset != reset {
			t.Errorf("%s: %+v, want 8, %d and %d", a.what, got, left[ask.token == key], reset)
		}
	}
	for range left[true] {
		w.send(key, http.MethodGet, "/v1/agents", "").want(http.StatusOK)
	}
	for _, token := range []string{w.alice.token, vera, key} {
		a := w.send(token, http.MethodGet, "/v1/account", "")
		if wait, got := a.limited(), a.rate(); wait != 50 || got.limit != 8 || got.remaining != 0 || got.reset != reset {
			t.Errorf("%s: %+v, Retry-After %d", a.what, got, wait)
		}
	}
	const counted = `
		# HELP outlay_query_limited_total Requests of signed-in users and API keys that were answered 429, by the limit of the account that they met.
		# TYPE outlay_query_limited_total counter
		outlay_query_limited_total{limit="at_once"} 0
		outlay_query_limited_total{limit="creations"} 0
		outlay_query_limited_total{limit="reads"} 3
		`
	if err := testutil.GatherAndCompare(w.registry, strings.NewReader(counted), "outlay_query_limited_total"); err != nil {
		t.Error(err)
	}
	w.bob.get("/v1/account").want(http.StatusOK)
	w.send(w.alice.token, http.MethodDelete, "/v1/api-keys/"+made.ID, "").want(http.StatusNoContent)
	w.send(w.alice.token, http.MethodPatch, "/v1/users/"+w.alice.user.ID.Text(schema.UserPrefix), `{"disabled":true}`).refused(http.StatusConflict)
	c.move(50 * time.Second)
	if got := w.alice.get("/v1/account").rate(); got.remaining != 7 || got.reset != reset+60 {
		t.Errorf("in the next minute: %+v", got)
	}
}

// A changed plan counts within a second, and a disabled user is out, on every replica.
func TestChangesReachEveryReplica(t *testing.T) {
	t.Parallel()
	pool := database(t)
	limits := query.DefaultLimits()
	limits.Enterprise, limits.Free = 1000, 10
	config := func(c *query.Config) { c.Limits = limits }
	first := newWorldWith(t, pool, config)
	second := newServer(t, pool, func(c *query.Config) { config(c); c.Keys = first.keys })
	victim := first.alice.colleague("vera@example.org", viewer)
	token := first.tokenFor(victim)
	for _, w := range []*world{first, second} {
		if got := w.send(token, http.MethodGet, "/v1/account", "").rate(); got.limit != 1000 {
			t.Fatalf("limit %d, want 1000", got.limit)
		}
	}
	// within returns how long it takes until something holds on both.
	within := func(what string, change string, holds func(w *world) bool, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), change, args...); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for _, w := range []*world{first, second} {
			for !holds(w) {
				if time.Since(start) > 3*time.Second {
					t.Fatalf("%s does not hold after 3 s", what)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		t.Logf("%s holds after %v", what, time.Since(start))
	}
	within("the plan", `UPDATE accounts SET plan = 'free' WHERE id = $1`, func(w *world) bool {
		return w.send(token, http.MethodGet, "/v1/account", "").rate().limit == 10
	}, first.alice.account)
	within("the end of a user", `UPDATE users SET disabled_at = now() WHERE id = $1`, func(w *world) bool {
		return w.send(token, http.MethodGet, "/v1/account", "").status == http.StatusUnauthorized
	}, victim.ID)
}

// What an account makes in a minute is bounded apart from what it asks.
func TestCreationsAreBounded(t *testing.T) {
	t.Parallel()
	limits := query.DefaultLimits()
	limits.Creations = 5
	c := clock{now: time.Now().Truncate(time.Minute).Add(time.Minute)}
	w := newWorldWith(t, database(t), func(config *query.Config) { config.Limits, config.Now = limits, c.Now })
	made := []struct{ path, body string }{
		{"/v1/api-keys", `{"name":"k"}`},
		{"/v1/users", `{"email":"new@example.org","password":"correct horse battery","role":"viewer"}`},
		{"/v1/alerts", costRule},
		{"/v1/prices/overrides", `{"match":"new","input_usd_per_mtok":1,"output_usd_per_mtok":2}`},
		{"/v1/reports/generate", november},
	}
	for i, m := range made {
		a := w.send(w.alice.token, http.MethodPost, m.path, m.body)
		if a.status >= http.StatusBadRequest {
			t.Errorf("%s: %d %s", a.what, a.status, a.body)
		}
		if got := a.rate(); got.limit != 5 || got.remaining != int64(4-i) {
			t.Errorf("%s: %+v", a.what, got)
		}
	}
	for _, m := range made {
		w.send(w.alice.token, http.MethodPost, m.path, m.body).limited()
	}
	w.send(w.bob.token, http.MethodPost, made[0].path, made[0].body).want(http.StatusCreated)
	if got := w.alice.get("/v1/api-keys").rate(); got.limit != limits.Enterprise {
		t.Errorf("reading: %+v", got)
	}
	var keys struct{ Data []struct{ ID string } }
	w.alice.get("/v1/api-keys").decode(http.StatusOK, &keys)
	if len(keys.Data) != 1 {
		t.Errorf("%d keys, want 1: one that was refused was made", len(keys.Data))
	}
	c.move(time.Minute)
	w.send(w.alice.token, http.MethodPost, made[0].path, made[0].body).want(http.StatusCreated)
}

// One account's requests that take long leave connections to the others: they wait for each other, for five seconds at most.
func TestOneAccountDoesNotTakeAllConnections(t *testing.T) {
	t.Parallel()
	limits := query.DefaultLimits()
	limits.AtOnce = 2
	w := newWorldWith(t, database(t), func(config *query.Config) { config.Limits = limits })
	w.bob.get("/v1/account").want(http.StatusOK)
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	// Alice's lists of caps wait for this, and nothing else does.
	if _, err := tx.Exec(t.Context(), `LOCK TABLE budgets IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	const asked = 12
	statuses := make(chan int, asked)
	start := time.Now()
	var asking sync.WaitGroup
	for range asked {
		asking.Go(func() { statuses <- w.alice.get("/v1/budgets").status })
	}
	for range 20 {
		before := time.Now()
		w.bob.get("/v1/events").want(http.StatusOK)
		if took := time.Since(before); took > 2*time.Second {
			t.Errorf("another account waited for %v", took)
		}
	}
	for n := range asked - limits.AtOnce {
		if status := <-statuses; status != http.StatusTooManyRequests {
			t.Errorf("answer %d is %d after %v, want 429", n, status, time.Since(start))
		}
	}
	if took := time.Since(start); took < 4*time.Second {
		t.Errorf("nobody waited: all were refused after %v", took)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	asking.Wait()
	for range limits.AtOnce {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("a request that had its turn is answered %d", status)
		}
	}
	w.alice.get("/v1/budgets").want(http.StatusOK)
}

// Limits that make no sense are refused with the flag named.
func TestLimitsAreValidated(t *testing.T) {
	t.Parallel()
	if err := query.DefaultLimits().Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*query.Limits){
		func(l *query.Limits) { l.Free = 0 }, func(l *query.Limits) { l.Pro = -1 }, func(l *query.Limits) { l.Enterprise = 1 << 40 },
		func(l *query.Limits) { l.AtOnce = 0 }, func(l *query.Limits) { l.Creations = 0 },
	} {
		l := query.DefaultLimits()
		change(&l)
		if l.Validate() == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
}
