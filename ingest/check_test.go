package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// someCaps has caps that stand where the test says.
type someCaps struct {
	noCaps
	standings map[string]lease.Standing
	err       error
}

func (c someCaps) Standing(_ context.Context, scope budget.Scope) (lease.Standing, bool, error) {
	s, ok := c.standings[scope.Agent]
	return s, ok, c.err
}

func standing(limit, remaining schema.NanoUSD, onUnpriced budget.OnUnpriced) lease.Standing {
	return lease.Standing{Budget: budget.Budget{Limit: limit, Period: budget.Total, OnUnpriced: onUnpriced}, Spent: limit - remaining, Remaining: remaining}
}

const dollar = 1_000_000_000

// An event is allowed while something is left of both caps, and no less than it
// would cost.
func TestCheckBudget(t *testing.T) {
	t.Parallel()
	both := map[string]lease.Standing{"bot": standing(10*dollar, 2*dollar, budget.Allow), "": standing(100*dollar, dollar, budget.Allow)}
	for _, c := range []struct {
		name, body string
		standings  map[string]lease.Standing
		want       string
	}{
		{"no cap", `{"agent":"bot"}`, nil, `{"allowed":true,"remaining_usd":null,"budget":null}`},
		{
			"no cap, estimated", `{"agent":"bot","model":"gpt-4o","input_tokens":1000,"max_output_tokens":100}`, nil,
			`{"allowed":true,"remaining_usd":null,"estimate_usd":0.0035,"budget":null}`,
		},
		{
			"the account's is tighter", `{"agent":"bot"}`, both,
			`{"allowed":true,"remaining_usd":1,"budget":{"limit_usd":100,"spent_usd":99,"remaining_usd":1,"period":"total","resets_at":null}}`,
		},
		{
			"reached", `{"agent":" bot ","later":[1]}`,
			map[string]lease.Standing{"bot": standing(dollar, 0, budget.Allow)},
			`{"allowed":false,"remaining_usd":0,"budget":{"limit_usd":1,"spent_usd":1,"remaining_usd":0,"period":"total","resets_at":null}}`,
		},
		{
			"exactly enough", `{"agent":"bot","provider":"openai","model":"gpt-4o","input_tokens":1000}`,
			map[string]lease.Standing{"bot": standing(dollar, 2_500_000, budget.Deny)},
			`{"allowed":true,"remaining_usd":0.0025,"estimate_usd":0.0025,"budget":{"limit_usd":1,"spent_usd":0.9975,"remaining_usd":0.0025,"period":"total","resets_at":null}}`,
		},
		{
			"a nano-dollar short", `{"agent":"bot","model":"gpt-4o","input_tokens":1e3}`,
			map[string]lease.Standing{"bot": standing(dollar, 2_499_999, budget.Allow)},
			`{"allowed":false,"remaining_usd":0.002499999,"estimate_usd":0.0025,"budget":{"limit_usd":1,"spent_usd":0.997500001,"remaining_usd":0.002499999,"period":"total","resets_at":null}}`,
		},
		{
			"unpriced and allowed", `{"agent":"bot","model":"no-such-model","input_tokens":1}`,
			map[string]lease.Standing{"bot": standing(dollar, dollar, budget.Allow)},
			`{"allowed":true,"remaining_usd":1,"budget":{"limit_usd":1,"spent_usd":0,"remaining_usd":1,"period":"total","resets_at":null}}`,
		},
		{
			"unpriced and denied", `{"agent":"bot","model":"no-such-model","input_tokens":1}`,
			map[string]lease.Standing{"bot": standing(dollar, dollar, budget.Allow), "": standing(9*dollar, 9*dollar, budget.Deny)},
			`{"allowed":false,"remaining_usd":1,"budget":{"limit_usd":1,"spent_usd":0,"remaining_usd":1,"period":"total","resets_at":null}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.ingest.caps = someCaps{standings: c.standings}
			got := f.post(t, "/v1/budgets/check", c.body)
			var want map[string]any
			d := json.NewDecoder(strings.NewReader(c.want))
			d.UseNumber()
			if err := d.Decode(&want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.body); got.status != http.StatusOK || diff != "" {
				t.Errorf("%d (-want +got):\n%s", got.status, diff)
			}
		})
	}
}

// What is not a question is refused as an event would be, with the field named.
func TestBadChecksAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for body, fields := range map[string]string{
		`{}`: "agent", `{"agent":" "}`: "agent", `{"agent":7}`: "agent", `{"agent":"a\u0000"}`: "agent",
		`{"agent":"a","agent":"b"}`: "agent", `{"agent":"a","input_tokens":-1}`: "input_tokens",
		`{"agent":"a","input_tokens":1.5,"max_output_tokens":"9"}`:       "input_tokens max_output_tokens",
		`{"model":"a\n","provider":"` + strings.Repeat("x", 201) + `"}`:  "model provider agent",
		`{"agent":"a","model":"gpt-4o","input_tokens":9007199254740991}`: "input_tokens",
		``: "", `[]`: "", `{"agent":"a"}{}`: "", `{"agent":"a",}`: "", "{\"agent\":\"\xff\"}": "",
	} {
		got := f.post(t, "/v1/budgets/check", body)
		var names []string
		faults, _ := got.body["errors"].([]any)
		for _, fault := range faults {
			names = append(names, fmt.Sprint(fault.(map[string]any)["field"]))
		}
		if got.status != http.StatusUnprocessableEntity || strings.Join(names, " ") != fields {
			t.Errorf("%q: %d naming %q, want 422 naming %q", body, got.status, names, fields)
		}
	}
	if got := f.post(t, "/v1/budgets/check", `{"agent":"a"}`, "Authorization", ""); got.status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", got.status)
	}
	if got := f.post(t, "/v1/budgets/check", `{"agent":"a"}`, "Content-Type", "text/csv"); got.status != http.StatusUnsupportedMediaType {
		t.Errorf("text/csv: %d", got.status)
	}
	if got := f.post(t, "/v1/budgets/check", strings.Repeat(" ", 300<<10)); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("300 KiB: %d", got.status)
	}
	f.ingest.caps = someCaps{err: lease.ErrUnknown}
	if got := f.post(t, "/v1/budgets/check", `{"agent":"a"}`); got.status != http.StatusInternalServerError || got.header.Get("Retry-After") == "" {
		t.Errorf("nobody knows: %d with Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
}

// On a real database, what is checked is what tracking then does, and a check
// records nothing.
func TestCheckAgreesWithTracking(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		f := newFixtureWithCaps(t, new(laterCaps))
		b := budget.Budget{
			Scope: budget.Scope{AccountID: f.account, Agent: "bot"}, Limit: 3 * dollar,
			Period: budget.Month, Timezone: "Asia/Kolkata", OnUnpriced: budget.Allow,
		}
		f.cap(t, db, b)
		for tracked := 0; ; tracked++ {
			check := f.post(t, "/v1/budgets/check", `{"agent":"bot"}`)
			got := f.post(t, "/v1/track", `{"agent":"bot","cost_usd":1}`)
			if got.status == http.StatusInternalServerError {
				tracked-- // The replica was not yet noted as alive.
				continue
			}
			want := map[string]any{
				"allowed": tracked < 3, "remaining_usd": json.Number(fmt.Sprint(3 - tracked)),
				"budget": map[string]any{
					"limit_usd": json.Number("3"), "spent_usd": json.Number(fmt.Sprint(tracked)),
					"remaining_usd": json.Number(fmt.Sprint(3 - tracked)), "period": "month",
					"resets_at": b.Window(time.Now()).End.Format(time.RFC3339),
				},
			}
			if diff := cmp.Diff(want, check.body); diff != "" {
				t.Fatalf("after %d events (-want +got):\n%s", tracked, diff)
			}
			if refused := got.status == http.StatusPaymentRequired; refused != (tracked == 3) {
				t.Fatalf("event %d: %d", tracked, got.status)
			}
			if tracked == 3 {
				break
			}
		}
		if got := len(f.events(t, 3)); got != 3 {
			t.Errorf("%d events were recorded", got)
		}
	})
}

// cap sets a cap in a database and makes the server obey it.
func (f *fixture) cap(t *testing.T, db *schematest.DB, b budget.Budget) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO accounts (id, name) VALUES ($1, 'test')`, f.account); err != nil {
		t.Fatal(err)
	}
	if err := budget.NewStore(db.Pool).Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	gate := lease.New(lease.Config{OnDatabaseDown: "closed"}, lease.Deps{
		Pool: db.Pool, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { gate.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	for !gate.Ready() {
		time.Sleep(time.Millisecond)
	}
	f.ingest.caps.(*laterCaps).Caps = gate
}

// laterCaps are set after the server was made, and before the first request.
type laterCaps struct{ Caps }

// Every answer shows the same of a cap: what is spent, above it as well, and nothing
// that is only leased. An event that is sent again is answered with it too. Once the
// cap is reached nothing passes, whatever it costs, and the check says so.
func TestEveryAnswerShowsTheSameOfACap(t *testing.T) {
	t.Parallel()
	f := newFixtureWithCaps(t, new(laterCaps))
	db := schematest.Database(t)
	f.cap(t, db, budget.Budget{
		Scope: budget.Scope{AccountID: f.account, Agent: "bot"}, Limit: dollar,
		Period: budget.Total, Timezone: "UTC", OnUnpriced: budget.Allow,
	})
	shows := func(name string, body map[string]any, spent, remaining string) {
		t.Helper()
		want := map[string]any{
			"limit_usd": json.Number("1"), "spent_usd": json.Number(spent), "remaining_usd": json.Number(remaining),
			"period": "total", "resets_at": nil,
		}
		if diff := cmp.Diff(want, body["budget"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	const (
		keyed = `{"agent":"bot","cost_usd":0.25,"idempotency_key":"k"}`
		check = `{"agent":"bot"}`
	)
	shows("the first", f.post(t, "/v1/track", keyed).body, "0.25", "0.75")
	shows("checked", f.post(t, "/v1/budgets/check", check).body, "0.25", "0.75")
	shows("sent again", f.post(t, "/v1/track", keyed).body, "0.25", "0.75")
	results := f.post(t, "/v1/track/batch", `[`+keyed+`,{"agent":"bot","cost_usd":0.5},{"agent":"bot","cost_usd":2}]`).results(t)
	if len(results) != 3 || results[0]["duplicate"] != true {
		t.Fatal(results)
	}
	for i, result := range results {
		shows(fmt.Sprint("of a batch, ", i), result, "2.75", "0")
	}
	for _, body := range []string{
		`{"agent":"bot"}`, `{"agent":"bot","cost_usd":0}`, `{"agent":"bot","model":"no-such-model","input_tokens":1}`,
	} {
		if got := f.post(t, "/v1/track", body); got.status != http.StatusPaymentRequired {
			t.Errorf("%s after the cap was reached: %d", body, got.status)
		}
	}
	got := f.post(t, "/v1/budgets/check", check)
	if got.body["allowed"] != false {
		t.Error("a reached cap allows events")
	}
	shows("checked", got.body, "2.75", "0")
	shows("sent again", f.post(t, "/v1/track", keyed).body, "2.75", "0")
}
