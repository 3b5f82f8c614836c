package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/tariff"
)

// With PostgreSQL stopped a replica goes on from memory: keys, good and revoked ones,
// the plan, the account's own prices, and the caps that are not there.
func TestServedFromMemoryWithoutDatabase(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	addOwnPrice(t, in)
	good, revoked := in.newKey(t), in.newKey(t)
	in.outlay(t, "key", "revoke", "--database-url", in.databaseURL, "--account", in.account, revoked.id)
	replicas := in.newReplicas(t, "--plan-enterprise", "123456")
	check := func(when string) {
		t.Helper()
		for i, r := range replicas {
			at := client{"http://" + r.listen, good.secret}
			for event, cost := range map[string]string{
				`{"agent":"a","model":"gpt-4o","provider":"openai","input_tokens":1000000}`:   "7.5",
				`{"agent":"a","model":"our-model","input_tokens":1000,"output_tokens":1000}`:  "0.003",
				`{"agent":"a","model":"gpt-4o-mini","input_tokens":1234,"output_tokens":567}`: "0.0005253",
			} {
				var result struct {
					CostUSD json.Number `json:"cost_usd"`
				}
				if status := at.call(t, http.MethodPost, "/v1/track", event, &result); status != http.StatusOK || result.CostUSD.String() != cost {
					t.Errorf("%s: replica %d, %s: status %d, cost %s, want %s", when, i, event, status, result.CostUSD, cost)
				}
			}
			for name, key := range map[string]string{"a revoked key": revoked.secret, "no key": "", "a made-up key": "outlay_live_x"} {
				if status := (client{at.base, key}).call(t, http.MethodPost, "/v1/track", `{"agent":"a"}`, &struct{}{}); status != http.StatusUnauthorized {
					t.Errorf("%s: replica %d answers %s with %d, want 401", when, i, name, status)
				}
			}
			if got := limitOf(t, at); got != "123456" {
				t.Errorf("%s: replica %d states the limit is %q", when, i, got)
			}
		}
	}
	check("with the database")
	in.stopDatabase(t)
	check("without the database")
	time.Sleep(2 * time.Second)
	check("two seconds later")
	in.startDatabase(t)
}

// addOwnPrice gives the account prices of its own: one for a model that nobody knows,
// one in place of a published one.
func addOwnPrice(t *testing.T, in *installation) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), in.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	account, err := schema.ParseID(schema.AccountPrefix, in.account)
	if err != nil {
		t.Fatal(err)
	}
	for match, rates := range map[string][2]price.Rate{"our-model": {1_000_000, 2_000_000}, "gpt-4o": {7_500_000, 0}} {
		o := tariff.Override{ID: schema.NewID(time.Now()), AccountID: account, CreatedAt: time.Now()}
		o.Match, o.Rates.Input, o.Rates.Output = match, &rates[0], &rates[1]
		if err := tariff.NewStore(conn).Add(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// limitOf is the limit that an answer names.
func limitOf(t *testing.T, c client) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.base+"/v1/track", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.bearer)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return fmt.Sprint(resp.Header.Get("X-RateLimit-Limit"))
}
