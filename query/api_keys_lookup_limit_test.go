package query_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema/account"
)

// A network that guesses keys is refused until the next minute. Keys that were good before go on reading from there, and end when they are
// revoked; those that were refused stay refused; other networks notice nothing.
func TestNetworkThatGuessesReadKeysIsLimited(t *testing.T) {
	t.Parallel()
	c := clock{now: time.Now().Truncate(time.Minute).Add(70 * time.Second)}
	w := newWorldWith(t, database(t), func(config *query.Config) {
		config.Now, config.TrustedProxies = c.Now, []string{"127.0.0.0/8"}
	})
	from := func(address, key string) *answer {
		t.Helper()
		return w.ask(http.MethodGet, "/v1/agents", "", "Authorization", "Bearer "+key, "X-Forwarded-For", address)
	}
	known := w.alice.newKey(`{"name":"r","scopes":["read"]}`)
	for i := range 2 * account.LookupsPerMinute { // Good keys do not count.
		from(fmt.Sprintf("203.0.113.%d", i), known.Key).want(http.StatusOK)
	}
	refused := account.NewSecret()
	for range 2 * account.LookupsPerMinute { // One that is not good counts once.
		from("203.0.113.1", refused).refused(http.StatusUnauthorized)
	}
	for range account.LookupsPerMinute - 1 {
		from("203.0.113.2", account.NewSecret()).refused(http.StatusUnauthorized)
	}
	fresh := w.alice.newKey(`{"name":"f","scopes":["read"]}`).Key
	for i, key := range []string{account.NewSecret(), account.NewSecret(), fresh} {
		if wait := from(fmt.Sprintf("203.0.113.%d", 200+i), key).limited(); wait != 50 {
			t.Errorf("Retry-After %d, want 50", wait)
		}
	}
	from("203.0.114.1", account.NewSecret()).refused(http.StatusUnauthorized)
	from("203.0.114.1", fresh).want(http.StatusOK)
	c.move(time.Second) // What is known of good keys is asked again.
	from("203.0.113.1", refused).refused(http.StatusUnauthorized)
	from("203.0.113.1", known.Key).want(http.StatusOK)
	w.alice.send(w.alice.token, http.MethodDelete, "/v1/api-keys/"+known.ID, "").want(http.StatusNoContent)
	c.move(time.Second)
	from("203.0.113.1", known.Key).refused(http.StatusUnauthorized)
	from("203.0.113.1", account.NewSecret()).limited()
	c.move(48 * time.Second)
	from("203.0.113.1", account.NewSecret()).refused(http.StatusUnauthorized)

	const counted = `
		# HELP outlay_query_refused_key_lookups_total Requests with an API key that is not known, refused because their network sent many keys in the minute that are not good.
		# TYPE outlay_query_refused_key_lookups_total counter
		outlay_query_refused_key_lookups_total 4
		`
	if err := testutil.GatherAndCompare(w.registry, strings.NewReader(counted), "outlay_query_refused_key_lookups_total"); err != nil {
		t.Error(err)
	}
}
