package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

// eventPage is what tests look at of a page of events.
type eventPage struct {
	Data       []shownEvent
	NextCursor *string `json:"next_cursor"`
}

type shownEvent struct {
	EventID string      `json:"event_id"`
	Agent   string      `json:"agent"`
	CostUSD json.Number `json:"cost_usd"`
}

func (p *person) events(query string) eventPage {
	p.t.Helper()
	var page eventPage
	p.get("/v1/events"+query).decode(http.StatusOK, &page)
	return page
}

func (p eventPage) agents() []string {
	names := []string{}
	for _, e := range p.Data {
		names = append(names, e.Agent)
	}
	return names
}

// An event comes back with every field, its money to the nano-dollar.
func TestEventsShowEveryField(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		parent := schema.NewID(w.now)
		stored := w.alice.newEvent(func(e *schema.Event) {
			e.Cost = 7_500
			e.Parent, e.Step, e.UserID, e.ErrorType = parent, "plan", "u-1", "timeout"
			e.Status = schema.StatusError
			e.Tags = []string{"a", "b"}
			e.Metadata = []byte(`{"n":1e3,"t":"<x>"}`)
			e.IdempotencyKey = "key-1"
		})
		w.store(stored)

		var page struct{ Data []map[string]any }
		w.alice.get("/v1/events").decode(http.StatusOK, &page)
		want := map[string]any{
			"event_id": stored.ID.Text(schema.EventPrefix), "agent": "support-bot", "model": "gpt-4o", "provider": "openai",
			"session_id": "ses_one", "session_implicit": false,
			"timestamp": stored.Time.Format(time.RFC3339Nano), "received_at": stored.ReceivedAt.Format(time.RFC3339Nano),
			"status": "error", "error_type": "timeout", "step": "plan", "user_id": "u-1",
			"parent_event_id": parent.Text(schema.EventPrefix),
			"input_tokens":    json.Number("1200"), "output_tokens": json.Number("350"), "cache_read_tokens": json.Number("200"),
			"cache_write_tokens": json.Number("20"), "cache_write_1h_tokens": json.Number("2"), "reasoning_tokens": json.Number("50"),
			"latency_ms": json.Number("640"), "cost_usd": json.Number("0.0000075"), "cost_source": "calculated",
			"price_id": stored.PriceID, "tags": []any{"a", "b"},
			"metadata": map[string]any{"n": json.Number("1e3"), "t": "<x>"}, "idempotency_key": "key-1",
		}
		if diff := cmp.Diff([]map[string]any{want}, page.Data); diff != "" {
			t.Errorf("GET /v1/events (-want +got):\n%s", diff)
		}

		var detail map[string]any
		w.alice.get("/v1/events/"+stored.ID.Text(schema.EventPrefix)).decode(http.StatusOK, &detail)
		want["cost_breakdown"] = []any{map[string]any{
			"kind": "input", "tokens": json.Number("1200"), "rate_usd_per_mtok": json.Number("2.5"),
			"cost_usd": json.Number("0.003"), "tier": "base", "rule": "equals gpt-4o",
		}}
		want["revisions"] = []any{}
		if diff := cmp.Diff(want, detail); diff != "" {
			t.Errorf("GET /v1/events/{id} (-want +got):\n%s", diff)
		}
	})
}

// What an event does not have is null, not an empty text or a zero.
func TestEventsShowNullForWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.store(w.alice.newEvent(func(e *schema.Event) {
		e.Provider, e.Model, e.PriceID, e.LatencyMS, e.Breakdown = "", "", "", schema.NoLatency, nil
		e.Source, e.Cost = schema.CostUnpriced, 0
	}))
	var page struct{ Data []map[string]any }
	w.alice.get("/v1/events").decode(http.StatusOK, &page)
	for _, field := range []string{
		"model", "provider", "error_type", "step", "user_id", "parent_event_id", "latency_ms", "price_id", "metadata", "idempotency_key",
	} {
		if got := page.Data[0][field]; got != nil {
			t.Errorf("%s = %v, want null", field, got)
		}
	}
	if diff := cmp.Diff([]any{}, page.Data[0]["tags"]); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// Each filter lets through the events it names and no other.
func TestEventsFilter(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		named := func(agent string, change func(*schema.Event)) schema.Event {
			return w.alice.newEvent(func(e *schema.Event) {
				e.Agent = agent
				if change != nil {
					change(e)
				}
			})
		}
		w.store(
			named("plain", nil),
			named("claude", func(e *schema.Event) { e.Model, e.Provider = "claude-3-haiku", "anthropic" }),
			named("session", func(e *schema.Event) { e.SessionID = "ses_two" }),
			named("user", func(e *schema.Event) { e.UserID = "Zoë" }),
			named("tagged", func(e *schema.Event) { e.Tags = []string{"x", "y"} }),
			named("failed", func(e *schema.Event) { e.Status, e.ErrorType = schema.StatusError, "overloaded" }),
			named("dear", func(e *schema.Event) { e.Cost = 2_000_000_000 }),
			named("100%_\\", nil),
			named("old", func(e *schema.Event) { e.Time = w.now.Add(-48 * time.Hour) }),
		)
		at := func(d time.Duration) string { return w.now.Add(d).Format(time.RFC3339) }
		for query, want := range map[string][]string{
			"agent=plain":                    {"plain"},
			"model=claude-3-haiku":           {"claude"},
			"provider=anthropic":             {"claude"},
			"provider=anthropic&agent=plain": {},
			"session_id=two":                 {"session"},
			"session_id=ses_two":             {"session"},
			"user_id=Zo%C3%AB":               {"user"},
			"tag=x":                          {"tagged"},
			"tag=y&tag=x":                    {"tagged"},
			"tag=x&tag=z":                    {},
			"status=error":                   {"failed"},
			"min_cost_usd=2":                 {"dear"},
			"min_cost_usd=2.000000001":       {},
			"q=OVERLOAD":                     {"failed"},
			"q=%25":                          {"100%_\\"},
			"q=_%5C":                         {"100%_\\"},
			"q=zo%C3%AB":                     {"user"},
			"to=" + at(-24*time.Hour):        {"old"},
			"from=" + at(-49*time.Hour) + "&limit=1&agent=old": {"old"},
			"agent=old&from=" + at(-48*time.Hour):              {"old"},
			"agent=old&to=" + at(-48*time.Hour):                {},
		} {
			if diff := cmp.Diff(want, w.alice.events("?"+query).agents()); diff != "" {
				t.Errorf("GET /v1/events?%s (-want +got):\n%s", query, diff)
			}
		}
	})
}

// A query with a fault is refused and the field is named; a filter with a typo
// would else answer another question.
func TestEventsRefuseBadQueries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for query, field := range map[string]string{
		"agnet=x": "agnet", "agent=a&agent=b": "agent", "agent=%00": "agent", "agent=%ff": "agent",
		"limit=0": "limit", "limit=501": "limit", "limit=x": "limit", "status=good": "status",
		"min_cost_usd=-1": "min_cost_usd", "min_cost_usd=NaN": "min_cost_usd", "min_cost_usd=1e99": "min_cost_usd",
		"from=yesterday": "from", "to=2026-13-01": "to", "from=2026-01-02&to=2026-01-01": "from", "from=1999-01-01": "from",
		"cursor=x": "cursor", "cursor=eyJxIjoxfQ": "cursor", "agent=%zz": "query", "tag=" + strings.Repeat("x", 65): "tag",
		"q=" + strings.Repeat("x", 201): "q",
	} {
		refusal := w.alice.get("/v1/events?" + query).refused(http.StatusUnprocessableEntity)
		if refusal.Title != "Validation error" || len(refusal.Errors) != 1 || refusal.Errors[0].Field != field {
			t.Errorf("GET /v1/events?%s: %+v, want one error of %s", query, refusal, field)
		}
	}
}

// Paging gives every event once and in order, however many arrive meanwhile.
func TestEventsPageWhileEventsArrive(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		var stored []schema.Event
		want := map[string]bool{}
		for i := range 300 {
			// Three of each time, so that pages end between events of one time.
			e := w.alice.newEvent(func(e *schema.Event) { e.Time = w.now.Add(-time.Duration(i/3) * time.Minute) })
			stored = append(stored, e)
			want[e.ID.Text(schema.EventPrefix)] = true
		}
		w.store(stored...)

		query, pages := "?limit=7", 0
		for {
			page := w.alice.events(query)
			pages++
			for _, e := range page.Data {
				if !want[e.EventID] {
					t.Fatalf("page %d shows %s, which is new or was shown before", pages, e.EventID)
				}
				delete(want, e.EventID)
			}
			if page.NextCursor == nil {
				break
			}
			w.store(w.alice.newEvent(func(e *schema.Event) { e.Time = w.now.Add(time.Duration(pages) * time.Second) }))
			query = "?limit=7&cursor=" + *page.NextCursor
		}
		if len(want) > 0 {
			t.Errorf("%d of 300 events were never shown in %d pages", len(want), pages)
		}
	})
}

// A cursor belongs to the question it came from.
func TestCursorOfAnotherQuestionIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.store(w.alice.newEvent(nil), w.alice.newEvent(nil))
	cursor := *w.alice.events("?limit=1&agent=support-bot").NextCursor
	w.alice.get("/v1/events?limit=2&agent=support-bot&cursor=" + cursor).want(http.StatusOK)
	for _, query := range []string{
		"?cursor=" + cursor, "?agent=other&cursor=" + cursor, "?agent=support-bot&cursor=" + cursor[:len(cursor)-2],
		"?agent=support-bot&cursor=" + cursor + "AA", "?agent=support-bot&cursor=" + url.QueryEscape("=="+cursor),
	} {
		refusal := w.alice.get("/v1/events" + query).refused(http.StatusUnprocessableEntity)
		if len(refusal.Errors) != 1 || refusal.Errors[0].Field != "cursor" {
			t.Errorf("%s: %+v, want one error of cursor", query, refusal)
		}
	}
	w.alice.get("/v1/agents?cursor=" + cursor).refused(http.StatusUnprocessableEntity)
}

// An event is found by its id wherever its time lies, and whoever made the id.
func TestEventIsFoundByID(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		keyed := func(key string) func(*schema.Event) {
			return func(e *schema.Event) { e.ID = schema.KeyedEventID(e.AccountID, key) }
		}
		for name, event := range map[string]schema.Event{
			"now":       w.alice.newEvent(nil),
			"late":      w.alice.newEvent(func(e *schema.Event) { e.Time = w.now.Add(-29 * 24 * time.Hour) }),
			"ahead":     w.alice.newEvent(func(e *schema.Event) { e.Time = w.now.Add(4 * time.Minute) }),
			"keyed":     w.alice.newEvent(keyed("k1")),
			"forgotten": w.alice.newEvent(keyed("k2")),
		} {
			w.store(event)
			if name == "keyed" {
				w.exec(`INSERT INTO event_keys (account_id, event_id, first_seen) VALUES ($1, $2, $3)`, event.AccountID, event.ID, event.ReceivedAt)
			}
			id := event.ID.Text(schema.EventPrefix)
			var got shownEvent
			w.alice.get("/v1/events/"+id).decode(http.StatusOK, &got)
			if got.EventID != id {
				t.Errorf("%s: event_id = %s, want %s", name, got.EventID, id)
			}
		}
		for _, id := range []string{schema.NewID(w.now).Text(schema.EventPrefix), schema.KeyedEventID(w.alice.account, "k3").Text(schema.EventPrefix), "evt_", "x", "%00", "ses_one"} {
			w.alice.get(fmt.Sprintf("/v1/events/%s", id)).refused(http.StatusNotFound)
		}
	})
}
