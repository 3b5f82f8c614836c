package reprice

import (
	"encoding/json"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/wire"
)

// sums are the ways to add up, each with what it has to be equal to: what it is made of the events themselves.
var sums = map[string][2]string{
	"usage_15m": {
		`SELECT bucket, agent, provider, model, cost_nano_usd, unpriced_events::numeric, events::numeric FROM usage_15m`,
		`SELECT date_bin('15 minutes', ts, '2000-01-01'), agent, provider, model, sum(cost_nano_usd),
			count(*) FILTER (WHERE cost_source = 'unpriced')::numeric, count(*)::numeric FROM events GROUP BY 1, 2, 3, 4`,
	},
	"usage_hourly": {
		`SELECT bucket, agent, provider, model, cost_nano_usd, unpriced_events::numeric, events::numeric FROM usage_hourly`,
		`SELECT date_bin('1 hour', ts, '2000-01-01'), agent, provider, model, sum(cost_nano_usd),
			count(*) FILTER (WHERE cost_source = 'unpriced')::numeric, count(*)::numeric FROM events GROUP BY 1, 2, 3, 4`,
	},
	"usage_daily": {
		`SELECT bucket, agent, provider, model, cost_nano_usd, unpriced_events::numeric, events::numeric FROM usage_daily`,
		`SELECT date_bin('1 day', ts, '2000-01-01'), agent, provider, model, sum(cost_nano_usd),
			count(*) FILTER (WHERE cost_source = 'unpriced')::numeric, count(*)::numeric FROM events GROUP BY 1, 2, 3, 4`,
	},
	"arrivals": {
		`SELECT date_bin('1 hour', bucket, '2000-01-01'), agent, provider, model, sum(cost_nano_usd), sum(unpriced_events), sum(events) FROM arrivals GROUP BY 1, 2, 3, 4`,
		`SELECT date_bin('1 hour', received_at, '2000-01-01'), agent, provider, model, sum(cost_nano_usd),
			count(*) FILTER (WHERE cost_source = 'unpriced')::numeric, count(*)::numeric FROM events GROUP BY 1, 2, 3, 4`,
	},
	"spend": {
		`SELECT bucket, agent, '', '', cost_nano_usd, 0::numeric, events::numeric FROM spend`,
		`SELECT date_bin('15 minutes', received_at, '2000-01-01'), n.agent, '', '', sum(cost_nano_usd), 0::numeric, count(*)::numeric
			FROM events e CROSS JOIN LATERAL (VALUES (e.agent), ('')) AS n (agent) GROUP BY 1, 2`,
	},
	"sessions": {
		`SELECT timestamptz '2000-01-01', session_id, '', '', sum(cost_nano_usd), 0::numeric, sum(events)
			FROM (
				SELECT session_id, cost_nano_usd, events FROM sessions
				UNION ALL SELECT session_id, cost_nano_usd, events FROM session_parts
				UNION ALL SELECT p.session_id, i.cost_nano_usd, i.events
				FROM (SELECT account_id, session_id, min(started_at) AS started_at FROM session_parts GROUP BY 1, 2) p
				CROSS JOIN LATERAL implicit_start(p.account_id, p.session_id, p.started_at) i
				WHERE NOT EXISTS (SELECT FROM sessions s WHERE s.account_id = p.account_id AND s.session_id = p.session_id)
			) s GROUP BY 2`,
		`SELECT timestamptz '2000-01-01', session_id, '', '', sum(cost_nano_usd), 0::numeric, count(*)::numeric FROM events e
			WHERE NOT session_implicit OR EXISTS (SELECT FROM events o WHERE o.session_id = e.session_id AND NOT o.session_implicit) GROUP BY 2`,
	},
}

// checkSums compares every way to add up with the events.
func (l *ledger) checkSums() {
	l.t.Helper()
	for name, s := range sums {
		if diff := cmp.Diff(l.read(s[1]), l.read(s[0])); diff != "" {
			l.t.Errorf("%s is not the sum of the events (-events +%s):\n%.1500s", name, name, diff)
		}
	}
}

// read returns the rows of a question as text.
func (l *ledger) read(question string) map[string]string {
	l.t.Helper()
	rows, _ := l.pool.Query(l.t.Context(), question)
	all := map[string]string{}
	var bucket time.Time
	var agent, provider, model, cost, unpriced, events string
	_, err := pgx.ForEachRow(rows, []any{&bucket, &agent, &provider, &model, &cost, &unpriced, &events}, func() error {
		all[fmt.Sprint(bucket.Unix(), " ", agent, " ", provider, " ", model)] = fmt.Sprintf("%s nano-dollars, %s of %s unpriced", cost, unpriced, events)
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return all
}

// stored returns the cost, source and price of every event, by its id.
func (l *ledger) stored() map[schema.ID]string {
	l.t.Helper()
	rows, _ := l.pool.Query(l.t.Context(), `
		SELECT event_id, cost_nano_usd || ' ' || cost_source || ' ' || coalesce(price_id, 'no price') || ' ' || coalesce(cost_breakdown::text, 'no parts') FROM events`)
	all := map[schema.ID]string{}
	var id schema.ID
	var text string
	if _, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error { all[id] = text; return nil }); err != nil {
		l.t.Fatal(err)
	}
	return all
}

// text is what stored has of an event.
func text(e *schema.Event) string {
	priceID, parts := e.PriceID, ""
	if e.Breakdown != nil {
		written, err := wire.AppendBreakdownJSON(nil, e.Breakdown)
		if parts = string(written); err != nil {
			parts = err.Error()
		}
	}
	if priceID == "" {
		priceID = "no price"
	}
	if parts == "" {
		parts = "no parts"
	}
	return fmt.Sprintf("%d %s %s %s", e.Cost, e.Source, priceID, parts)
}

// nano reads dollars as nano-dollars.
func nano(t testing.TB, usd json.Number) string {
	t.Helper()
	n, ok := new(big.Rat).SetString(usd.String())
	if !ok {
		t.Fatalf("%q is no number", usd)
	}
	n.Mul(n, big.NewRat(1_000_000_000, 1))
	if !n.IsInt() {
		t.Fatalf("%s USD has more than nine decimals", usd)
	}
	return n.Num().String()
}

// checkEndpoints compares what endpoints of HTTP say of the whole time with the events.
func (l *ledger) checkEndpoints(from, to time.Time) {
	l.t.Helper()
	var cost, named string
	var unpriced int64
	err := l.pool.QueryRow(l.t.Context(), `
		SELECT sum(cost_nano_usd), count(*) FILTER (WHERE cost_source = 'unpriced'),
			sum(cost_nano_usd) FILTER (WHERE NOT session_implicit OR EXISTS (SELECT FROM events o WHERE o.session_id = e.session_id AND NOT o.session_implicit))
		FROM events e`).Scan(&cost, &unpriced, &named)
	if err != nil {
		l.t.Fatal(err)
	}
	span := "from=" + from.UTC().Format(time.RFC3339) + "&to=" + to.UTC().Format(time.RFC3339)
	type measured struct {
		Cost     json.Number `json:"cost_usd"`
		Unpriced int64       `json:"unpriced_events"`
	}
	for _, path := range []string{"/v1/analytics/daily?fill=false&", "/v1/analytics/hourly?fill=false&", "/v1/analytics/daily?fill=false&timezone=Asia/Kolkata&group_by=agent,model&", "/v1/analytics/summary?"} {
		var reply struct{ Totals measured }
		l.get(path+span, &reply)
		if got := nano(l.t, reply.Totals.Cost); got != cost || reply.Totals.Unpriced != unpriced {
			l.t.Errorf("%s: %s nano-dollars and %d unpriced, want %s and %d", path, got, reply.Totals.Unpriced, cost, unpriced)
		}
	}
	for path, want := range map[string]string{"/v1/agents?limit=500&": cost, "/v1/sessions?limit=500&": named} {
		var reply struct{ Data []measured }
		l.get(path+span, &reply)
		total := new(big.Int)
		for _, m := range reply.Data {
			n, _ := new(big.Int).SetString(nano(l.t, m.Cost), 10)
			total.Add(total, n)
		}
		if total.String() != want {
			l.t.Errorf("%s adds up to %s nano-dollars, want %s", path, total, want)
		}
	}
	var reply struct {
		Data []struct{ Events int64 }
	}
	l.get("/v1/prices/unpriced?limit=500&"+span, &reply)
	var listed int64
	for _, m := range reply.Data {
		listed += m.Events
	}
	if listed != unpriced {
		l.t.Errorf("%d events are listed as unpriced, want %d", listed, unpriced)
	}
}
