package deploy

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Every panel's query runs as the role that Grafana signs in with, on every kind of database, whatever is chosen on the dashboard.
func TestPanelsRunAsGrafanasRole(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		insertFleet(t, db)
		conn := connectAsGrafana(t, db)
		now := time.Now()
		for name, v := range map[string]view{
			"a week, all accounts": {From: now.AddDate(0, 0, -7), Interval: time.Hour, Variables: choose("", "North", "South")},
			"an hour, one agent":   {From: now.Add(-time.Hour), Interval: 15 * time.Minute, Variables: choose("it's", "North")},
			"a year, no account":   {From: now.AddDate(-1, 0, 0), Interval: 24 * time.Hour, Variables: choose("", "")},
		} {
			v.To, v.Timescale = now, db.Edition != migrations.Plain
			for where, q := range sqlQueries(t) {
				got, err := ask(t.Context(), conn, v.expand(t, q.RawSQL))
				if err != nil {
					t.Errorf("%s (%s): %v", where, name, err)
				} else if q.Format == "time_series" && got.columns[0] != "time" {
					t.Errorf("%s: a time series starts with %s, want time", where, got.columns[0])
				}
			}
		}
	})
}

// What the panels show is what is stored: totals are exact, and the parts of a chart add up to them.
func TestPanelsAddUpToWhatIsStored(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		fleet := insertFleet(t, db)
		conn := connectAsGrafana(t, db)
		queries := sqlQueries(t)
		v := view{
			From: fleet.from, To: fleet.to, Interval: time.Hour,
			Variables: choose("", "North", "South"), Timescale: db.Edition != migrations.Plain,
		}
		got := map[string]string{}
		for title, column := range map[string]string{
			"Spend in range": "spend", "Spend by model": "spend", "Spend by agent": "spend", "Agents": "spend", "Sessions": "spend",
			"Events in range": "events", "Unpriced events": "unpriced", "Models without a price": "events",
		} {
			answer, err := ask(t.Context(), conn, v.expand(t, queries["spend.json: "+title+" A"].RawSQL))
			if err != nil {
				t.Fatalf("%s: %v", title, err)
			}
			got[title] = answer.sum(t, column)
		}
		spend, events, unpriced := usd(fleet.costNanoUSD), fmt.Sprint(fleet.events), fmt.Sprint(fleet.unpriced)
		want := map[string]string{
			"Spend in range": spend, "Spend by model": spend, "Spend by agent": spend, "Agents": spend, "Sessions": spend,
			"Events in range": events, "Unpriced events": unpriced, "Models without a price": unpriced,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("panels' sums (-want +got):\n%s", diff)
		}
	})
}

// The role that Grafana has sees the views and nothing behind them.
func TestGrafanasRoleSeesViewsOnly(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	conn := connectAsGrafana(t, db)
	// The role is read-only by default, but anyone can undo a default: it is its rights that count.
	if _, err := conn.Exec(t.Context(), "set default_transaction_read_only = off"); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"select secret_sha256 from api_keys", "select password_hash from users", "select metadata from events", "select * from usage_daily",
		"delete from report.events", "create table report.mine (n int)",
	} {
		_, err := conn.Exec(t.Context(), query)
		if refused := new(pgconn.PgError); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v, want that it is refused", query, err)
		}
	}
}

func choose(agent string, accounts ...string) map[string][]string {
	return map[string][]string{"agent": {agent}, "account": accounts}
}

// fleet is what insertFleet stored: 1200 events of the last two days, 4 agents, 24 models, 40 sessions of two accounts.
type fleet struct {
	from, to         time.Time
	events, unpriced int64
	costNanoUSD      int64
}

const insertAccounts = `
insert into accounts (id, name) values
	('00000000-0000-7000-8000-000000000001', 'North'), ('00000000-0000-7000-8000-000000000002', 'South')`

const insertEvents = `
insert into events (ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit, status,
	input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, latency_ms,
	cost_nano_usd, cost_source, kafka_partition, kafka_offset)
select $1::timestamptz + n * interval '2 minutes', ('00000000-0000-7000-8000-00000000000' || 1 + n % 2)::uuid, gen_random_uuid(), now(),
	(array['planner', 'it''s', 'a/b', 'Ünïcode'])[1 + n % 4], case when n % 5 = 0 then '' else 'openai' end,
	case when n % 24 = 0 then '' else 'model-' || n % 24 end, 'ses_' || n % 40, false, case when n % 7 = 0 then 'error' else 'ok' end,
	100, 10, 0, 0, 0, 0, n, case when n % 9 = 0 then 0 else 7500 + n end, case when n % 9 = 0 then 'unpriced' else 'calculated' end, 0, n
from generate_series(0, 1199) as n`

const selectFleet = `select count(*), count(*) filter (where cost_source = 'unpriced'), sum(cost_nano_usd)::bigint from events`

func insertFleet(t *testing.T, db *schematest.DB) fleet {
	t.Helper()
	now := time.Now().UTC()
	f := fleet{from: now.Truncate(time.Hour).Add(-48 * time.Hour), to: now}
	for _, insert := range []struct {
		sql  string
		args []any
	}{{insertAccounts, nil}, {insertEvents, []any{f.from}}} {
		if _, err := db.Pool.Exec(t.Context(), insert.sql, insert.args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := schematest.SumEvents(t.Context(), db.Pool); err != nil {
		t.Fatal(err)
	}
	if err := db.Pool.QueryRow(t.Context(), selectFleet).Scan(&f.events, &f.unpriced, &f.costNanoUSD); err != nil {
		t.Fatal(err)
	}
	return f
}

// connectAsGrafana gives the role a password as `outlay migrate` does, and signs in with it.
func connectAsGrafana(t *testing.T, db *schematest.DB) *pgx.Conn {
	t.Helper()
	admin, err := db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Release()
	if err := migrations.Up(t.Context(), admin.Conn(), migrations.Options{GrafanaPassword: schematest.GrafanaPassword}); err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(dataSources(t)["outlay"].User, schematest.GrafanaPassword)
	conn, err := pgx.Connect(t.Context(), address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// answer is a query's result as text.
type answer struct {
	columns []string
	rows    [][]string
}

func ask(ctx context.Context, conn *pgx.Conn, query string) (answer, error) {
	var a answer
	rows, err := conn.Query(ctx, query, pgx.QueryResultFormats{pgtype.TextFormatCode})
	if err != nil {
		return a, err
	}
	defer rows.Close()
	for rows.Next() {
		var row []string
		for _, value := range rows.RawValues() {
			row = append(row, string(value))
		}
		a.rows = append(a.rows, row)
	}
	for _, f := range rows.FieldDescriptions() {
		a.columns = append(a.columns, f.Name)
	}
	return a, rows.Err()
}

// sum adds up a column exactly.
func (a answer) sum(t *testing.T, column string) string {
	t.Helper()
	total := new(big.Rat)
	for i, name := range a.columns {
		for _, row := range a.rows {
			if name != column {
				continue
			}
			value, ok := new(big.Rat).SetString(row[i])
			if !ok {
				t.Fatalf("%s is %q, want a number", column, row[i])
			}
			total.Add(total, value)
		}
	}
	return total.RatString()
}

func usd(nano int64) string { return big.NewRat(nano, 1e9).RatString() }
