package query_test

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

func (p *person) export(query string) []byte {
	p.t.Helper()
	answer := p.get("/v1/events/export" + query)
	answer.want(http.StatusOK)
	return answer.body
}

func (p *person) exportCSV(query string) (rows []map[string]string) {
	p.t.Helper()
	lines, err := csv.NewReader(bytes.NewReader(p.export(query))).ReadAll()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// An export has every event once, over many pages, in the order of the list, and
// its lines are the events of the list.
func TestExportHasEveryEvent(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		var events []schema.Event
		for i := range 2500 {
			events = append(events, w.alice.newEvent(func(e *schema.Event) { e.Time = w.now.Add(-time.Duration(i/7) * time.Second) }))
		}
		w.store(events...)
		w.store(w.bob.newEvent(nil))
		seen := map[string]bool{}
		scanner := bufio.NewScanner(bytes.NewReader(w.alice.export("?format=ndjson")))
		var last time.Time
		for scanner.Scan() {
			var e struct {
				EventID   string `json:"event_id"`
				Timestamp time.Time
			}
			if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			if seen[e.EventID] || !last.IsZero() && e.Timestamp.After(last) {
				t.Fatalf("%s comes twice or out of order", e.EventID)
			}
			seen[e.EventID], last = true, e.Timestamp
		}
		if len(seen) != 2500 {
			t.Errorf("the export has %d events, want 2500", len(seen))
		}
		if got := len(w.alice.exportCSV("")); got != 2500 {
			t.Errorf("the CSV has %d events", got)
		}
	})
}

// A CSV export has every field as text that a spreadsheet does not run.
func TestExportCSV(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	e := w.alice.newEvent(func(e *schema.Event) {
		e.Agent, e.UserID, e.Tags, e.Metadata = "=1+1", "+49", []string{"a", "b,c"}, []byte(`{"q":"\"x\",\n"}`)
		e.Cost = 7_500
	})
	other := w.alice.newEvent(func(e *schema.Event) { e.Agent, e.Time = "other", w.now.Add(-time.Hour) })
	w.store(e, other)
	want := []map[string]string{{
		"event_id": e.ID.Text(schema.EventPrefix), "timestamp": e.Time.Format(time.RFC3339Nano), "received_at": e.ReceivedAt.Format(time.RFC3339Nano),
		"agent": "'=1+1", "model": "gpt-4o", "provider": "openai", "session_id": "ses_one", "session_implicit": "false",
		"status": "ok", "error_type": "", "step": "", "user_id": "'+49", "parent_event_id": "",
		"input_tokens": "1200", "output_tokens": "350", "cache_read_tokens": "200", "cache_write_tokens": "20",
		"cache_write_1h_tokens": "2", "reasoning_tokens": "50", "latency_ms": "640", "cost_usd": "0.0000075",
		"cost_source": "calculated", "price_id": e.PriceID, "tags": "a,b,c", "metadata": `{"q":"\"x\",\n"}`, "idempotency_key": "",
	}}
	if diff := cmp.Diff(want, w.alice.exportCSV("?agent=%3D1%2B1")); diff != "" {
		t.Errorf("export (-want +got):\n%s", diff)
	}
}

// A FOCUS export costs what the events cost, in that specification's columns.
func TestExportFOCUS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	at := time.Date(2026, 1, 31, 23, 59, 59, 500_000_000, time.UTC)
	w.store(w.alice.newEvent(func(e *schema.Event) {
		e.Time, e.Tags, e.UserID, e.Cost = at, []string{"prod"}, "u-1", 123_456_789
	}))
	row := w.alice.exportCSV("?format=focus")[0]
	for name, want := range map[string]string{
		"BilledCost": "0.123456789", "EffectiveCost": "0.123456789", "ListCost": "0.123456789", "ContractedCost": "0.123456789",
		"PricingQuantity": "1", "ListUnitPrice": "0.123456789", "BillingCurrency": "USD", "ConsumedQuantity": "1550", "ConsumedUnit": "Tokens",
		"BillingPeriodStart": "2026-01-01T00:00:00Z", "BillingPeriodEnd": "2026-02-01T00:00:00Z",
		"ChargePeriodStart": "2026-01-31T23:59:59Z", "ChargePeriodEnd": "2026-02-01T00:00:00Z", "ChargeCategory": "Usage", "ChargeClass": "",
		"BillingAccountId": w.alice.account.Text(schema.AccountPrefix), "BillingAccountName": "Account of alice@example.com",
		"ProviderName": "openai", "ServiceCategory": "AI and Machine Learning", "ServiceSubcategory": "Generative AI",
		"ResourceId": "support-bot", "SkuId": "gpt-4o", "Tags": `{"prod":true,"user_id":"u-1"}`, "x_SessionId": "ses_one",
	} {
		if row[name] != want {
			t.Errorf("%s = %q, want %q", name, row[name], want)
		}
	}
}

// A bad question is answered before the stream begins.
func TestExportRefusesBadQueries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for _, query := range []string{"format=xml", "limit=3", "from=x", "cursor=y"} {
		w.alice.get("/v1/events/export?" + query).refused(http.StatusUnprocessableEntity)
	}
	if got := string(w.alice.export("")); strings.Count(got, "\n") != 1 {
		t.Errorf("an empty export = %q, want the header line", got)
	}
}
