package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// repricedEvents is OUTLAY_E2E_REPRICE, or a number that fits into a CI run.
func repricedEvents(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("OUTLAY_E2E_REPRICE"))
	if err != nil {
		return 24_000
	}
	return n
}

// repricing is an installation with events of three weeks whose prices are about to change.
type repricing struct {
	*installation
	pool *pgxpool.Pool
	api  client
	// from and to hold all events.
	from, to time.Time
}

func newRepricing(t *testing.T, events int) *repricing {
	t.Helper()
	db := schematest.Database(t)
	r := &repricing{installation: newInstallationOn(t, db.URL), pool: db.Pool, to: time.Now().UTC().Truncate(time.Second)}
	r.from = r.to.Add(-20 * 24 * time.Hour)
	r.startIngest(t)
	r.startQuery(t)
	r.api = signIn(t, r.credentials)
	first := r.startProcessor(t)
	began := time.Now()
	r.track(t, events)
	awaitFor(t, "the events to be stored", 10*time.Minute, func() bool { return r.number(t, `SELECT count(*) FROM events`) == int64(events) })
	awaitFor(t, "the aggregates to hold them", 10*time.Minute, func() bool { return r.number(t, summedUp) == 1 })
	t.Logf("%d events were tracked, stored and summed up in %v, %s", events, time.Since(began).Round(time.Second), db.Edition)
	first.kill()
	if db.Edition == migrations.Community {
		for _, chunk := range r.texts(t, `SELECT c::text FROM show_chunks('events', older_than => interval '7 days') c`) {
			r.exec(t, `SELECT compress_chunk($1::regclass, if_not_compressed => true)`, chunk)
		}
	}
	return r
}

// track sends events in batches: of a model that has a price, of one that has none, with a cost of the client's own, and without
// usage.
func (r *repricing) track(t *testing.T, events int) {
	t.Helper()
	step := r.to.Sub(r.from) / time.Duration(events+1)
	var g errgroup.Group
	g.SetLimit(4)
	for first := 0; first < events; first += 1000 {
		g.Go(func() error {
			var body strings.Builder
			n := min(1000, events-first)
			for i := first; i < first+n; i++ {
				separator := byte(',')
				if i == first {
					separator = '['
				}
				body.WriteByte(separator)
				fmt.Fprintf(&body, `{"agent":"agent-%d","session_id":"s-%d","timestamp":%q,%s}`, i%20, i%(events/10),
					r.from.Add(time.Duration(i)*step).Format(time.RFC3339Nano), []string{
						fmt.Sprintf(`"model":"gpt-4o","input_tokens":%d,"output_tokens":%d`, i%9000, i%700),
						fmt.Sprintf(`"model":"gpt-4o-mini","input_tokens":%d,"output_tokens":%d`, i%9000, i%700),
						fmt.Sprintf(`"model":"in-house-7b","input_tokens":%d,"output_tokens":%d`, i%9000, i%700),
						fmt.Sprintf(`"model":"gpt-4o","input_tokens":%d,"cost_usd":0.00%d`, i%9000, i%997),
						`"model":"gpt-4o"`,
					}[i%5])
			}
			body.WriteByte(']')
			var reply struct{ Accepted int }
			status := (client{r.base, r.credentials.APIKey}).call(t, http.MethodPost, "/v1/track/batch", body.String(), &reply)
			if status != http.StatusOK || reply.Accepted != n {
				return fmt.Errorf("track %d events: status %d, %d accepted", n, status, reply.Accepted)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func (r *repricing) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := r.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// number returns the one number that a statement answers; texts all that it answers.
func (r *repricing) number(t *testing.T, sql string) (n int64) {
	t.Helper()
	if err := r.pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (r *repricing) texts(t *testing.T, sql string) (all []string) {
	t.Helper()
	rows, err := r.pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// summedUp counts 1 when all that is stored is in the rollups.
const summedUp = `SELECT count(*) FROM usage_progress WHERE (SELECT sum(events) FROM usage_daily) = (SELECT count(*) FROM events)`

// repriceJob is a job as it is looked at.
type repriceJob struct {
	ID, State   string
	Attempt     int
	Done, Total int64
	Error       *string
	Result      *repriceResult
	StartedAt   time.Time  `json:"started_at"`
	FinishedAt  *time.Time `json:"finished_at"`
}

type repriceResult struct {
	Events, Changed int64
	Before          json.Number     `json:"before_usd"`
	After           json.Number     `json:"after_usd"`
	Difference      json.Number     `json:"difference_usd"`
	UnpricedBefore  int64           `json:"unpriced_before"`
	UnpricedAfter   int64           `json:"unpriced_after"`
	Rows            json.RawMessage `json:"by_day_and_model"`
}

func (r *repricing) begin(t *testing.T, dryRun bool) (j repriceJob) {
	t.Helper()
	body := fmt.Sprintf(`{"from":%q,"to":%q,"dry_run":%v}`, r.from.Format(time.RFC3339), r.to.Format(time.RFC3339), dryRun)
	if status := r.api.call(t, http.MethodPost, "/v1/prices/reprice", body, &j); status != http.StatusAccepted {
		t.Fatalf("ask for repricing: status %d", status)
	}
	return j
}

func (r *repricing) job(t *testing.T, id string) (j repriceJob) {
	t.Helper()
	if status := r.api.call(t, http.MethodGet, "/v1/jobs/"+id, "", &j); status != http.StatusOK {
		t.Fatalf("look at the job: status %d", status)
	}
	return j
}

func (r *repricing) await(t *testing.T, id string) (j repriceJob) {
	t.Helper()
	awaitFor(t, "the job to be done", 10*time.Minute, func() bool {
		j = r.job(t, id)
		if j.State == "failed" {
			t.Fatalf("the job failed: %s", *j.Error)
		}
		return j.State == "done"
	})
	return j
}

// killInTheMiddle ends a processor while the job waits for a lock in the middle of its time: the statement that waits goes on in
// the database, and nobody hears what becomes of it.
func (r *repricing) killInTheMiddle(t *testing.T, p *running, begin func() repriceJob) repriceJob {
	t.Helper()
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	middle := r.from.Add(r.to.Sub(r.from) / 2).Truncate(15 * time.Minute)
	if _, err := tx.Exec(t.Context(), `UPDATE usage_15m SET events = events WHERE bucket = $1`, middle); err != nil {
		t.Fatal(err)
	}
	j := begin()
	awaitFor(t, "the job to stand in the middle", 5*time.Minute, func() bool {
		return r.number(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%correct_events%' AND datname = current_database()`) > 0
	})
	p.kill()
	now := r.job(t, j.ID)
	t.Logf("killed after %d of %d events", now.Done, now.Total)
	if now.State != "running" || now.Done == 0 || now.Done >= now.Total {
		t.Errorf("the job is %+v, want one that is being done", now)
	}
	return j
}

// goOn sends events of the time that is repriced, at the prices of now, until it is stopped, and returns how many.
func (r *repricing) goOn(t *testing.T) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var sent int64
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			at := r.from.Add(time.Duration(i%2000) * r.to.Sub(r.from) / 2000)
			body := fmt.Sprintf(`{"agent":"agent-%d","session_id":"s-%d","timestamp":%q,"model":"in-house-7b","input_tokens":%d}`, i%20, i%100, at.Format(time.RFC3339Nano), i)
			if status := (client{r.base, r.credentials.APIKey}).call(t, http.MethodPost, "/v1/track", body, &struct{}{}); status != http.StatusOK {
				t.Errorf("track meanwhile: status %d", status)
			}
			sent++
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() int64 { cancel(); wg.Wait(); return sent }
}

// awaitPrices waits until ingest goes by these prices of a million input tokens.
func (r *repricing) awaitPrices(t *testing.T, prices map[string]string) {
	t.Helper()
	for model, want := range prices {
		body := fmt.Sprintf(`{"agent":"a","model":%q,"input_tokens":1000000}`, model)
		awaitFor(t, "ingest to know the price of "+model, time.Minute, func() bool {
			var check struct {
				Estimate json.Number `json:"estimate_usd"`
			}
			(client{r.base, r.credentials.APIKey}).call(t, http.MethodPost, "/v1/budgets/check", body, &check)
			return check.Estimate.String() == want
		})
	}
}

// totals are the ways to add all costs up, by name, in nano-dollars; and how many events are unpriced, by those who count them.
const totals = `
SELECT name || ': ' || trim_scale(sum) || ' ' || unpriced FROM (
	SELECT 'events' AS name, sum(cost_nano_usd) AS sum, count(*) FILTER (WHERE cost_source = 'unpriced') AS unpriced FROM events
	UNION ALL SELECT 'usage_15m', sum(cost_nano_usd), sum(unpriced_events) FROM usage_15m
	UNION ALL SELECT 'usage_hourly', sum(cost_nano_usd), sum(unpriced_events) FROM usage_hourly
	UNION ALL SELECT 'usage_daily', sum(cost_nano_usd), sum(unpriced_events) FROM usage_daily
	UNION ALL SELECT 'arrivals', sum(cost_nano_usd), sum(unpriced_events) FROM arrivals
	UNION ALL SELECT 'spend of agents', sum(cost_nano_usd), 0 FROM spend WHERE agent <> ''
	UNION ALL SELECT 'spend of the account', sum(cost_nano_usd), 0 FROM spend WHERE agent = ''
	UNION ALL SELECT 'sessions', sum(cost_nano_usd), 0 FROM (SELECT cost_nano_usd FROM sessions UNION ALL SELECT cost_nano_usd FROM session_parts) s
) t`

func (r *repricing) checkTotals(t *testing.T) {
	t.Helper()
	all := r.texts(t, totals)
	_, want, _ := strings.Cut(all[0], ": ")
	cost, unpriced, _ := strings.Cut(want, " ")
	if unpriced != "0" {
		t.Errorf("%s events are still unpriced", unpriced)
	}
	for _, line := range all {
		if _, got, _ := strings.Cut(line, ": "); got != cost+" 0" {
			t.Errorf("%s; the events: %s nano-dollars", line, cost)
		}
	}
	var daily, summary struct {
		Totals struct {
			Cost json.Number `json:"cost_usd"`
		}
	}
	span := "from=" + r.from.Format(time.DateOnly) + "&to=" + r.to.AddDate(0, 0, 1).Format(time.DateOnly)
	r.api.call(t, http.MethodGet, "/v1/analytics/daily?fill=false&"+span, "", &daily)
	r.api.call(t, http.MethodGet, "/v1/analytics/summary?"+span, "", &summary)
	dollars := r.texts(t, `SELECT trim_scale(sum(cost_nano_usd) * 0.000000001)::text FROM events`)[0]
	var integrity struct {
		Totals struct {
			Accepted, Difference int64
			Found                *int64
		}
	}
	at := r.to.Truncate(time.Hour)
	r.api.call(t, http.MethodGet, "/v1/integrity?verify=true&from="+at.Add(-time.Hour).Format(time.RFC3339)+"&to="+at.Add(2*time.Hour).Format(time.RFC3339), "", &integrity)
	if n := r.number(t, `SELECT count(*) FROM events`); integrity.Totals.Accepted != n || integrity.Totals.Difference != 0 || integrity.Totals.Found == nil || *integrity.Totals.Found != n {
		t.Errorf("integrity states %+v of %d events", integrity.Totals, n)
	}
	if daily.Totals.Cost.String() != dollars || summary.Totals.Cost.String() != dollars {
		t.Errorf("%s USD a day, %s USD in the summary, %s USD of events", daily.Totals.Cost, summary.Totals.Cost, dollars)
	}
}

// untouched is what must not change: what clients gave, and what has no usage.
const untouched = `
SELECT cost_source || ': ' || count(*) || ' events, ' || sum(cost_nano_usd) || ' nano-dollars, ' || bit_xor(hashtextextended(event_id::text || cost_nano_usd, 0))
FROM events WHERE cost_source IN ('client', 'no_usage') GROUP BY cost_source ORDER BY 1`

// A dry run states to the nano-dollar what repricing does, which a processor that is killed in the middle leaves to another. Each
// event is corrected once, and all sums agree, with events coming in all the while.
func TestRepriceSurvivesAKill(t *testing.T) {
	t.Parallel()
	events := repricedEvents(t)
	r := newRepricing(t, events)
	for _, own := range []string{
		`{"match":"gpt-4o","input_usd_per_mtok":1.234567,"output_usd_per_mtok":7.7}`,
		`{"match":"in-house-*","input_usd_per_mtok":0.1,"output_usd_per_mtok":0.333333}`,
	} {
		if status := r.api.call(t, http.MethodPost, "/v1/prices/overrides", own, &struct{}{}); status != http.StatusCreated {
			t.Fatalf("set a price: status %d", status)
		}
	}
	r.awaitPrices(t, map[string]string{"gpt-4o": "1.234567", "in-house-7b": "0.1"})
	clients := r.texts(t, untouched)

	p := r.startProcessor(t)
	dry := r.await(t, r.begin(t, true).ID)
	t.Logf("dry run: %v for %d events, of which %d change by %s USD; the processor took at most %d KiB",
		dry.FinishedAt.Sub(dry.StartedAt).Round(time.Millisecond), dry.Result.Events, dry.Result.Changed, dry.Result.Difference, peakResident(t, p.PID()))
	if n := r.number(t, `SELECT count(*) FROM event_revisions`); n != 0 {
		t.Errorf("a dry run made %d revisions", n)
	}

	stop := r.goOn(t)
	j := r.killInTheMiddle(t, p, func() repriceJob { return r.begin(t, false) })
	resumed := time.Now()
	p = r.startProcessor(t)
	done := r.await(t, j.ID)
	more := stop()
	t.Logf("real run: done %v after another processor was started, %v after its start, in %d tries, with %d events coming in meanwhile; the processor took at most %d KiB",
		time.Since(resumed).Round(time.Millisecond), done.FinishedAt.Sub(done.StartedAt).Round(time.Millisecond), done.Attempt, more, peakResident(t, p.PID()))
	dry.Result.Events, done.Result.Events = 0, 0 // Of those that came in meanwhile, the first two seconds are looked at.
	if diff := cmp.Diff(dry.Result, done.Result); diff != "" {
		t.Errorf("not what the dry run found (-dry +real):\n%.2000s", diff)
	}
	if done.Attempt < 2 {
		t.Errorf("%d tries, want one more after the kill", done.Attempt)
	}
	revised, distinct := r.number(t, `SELECT count(*) FROM event_revisions`), r.number(t, `SELECT count(DISTINCT event_id) FROM event_revisions`)
	if revised != done.Result.Changed || distinct != revised || revised < int64(events)/3 {
		t.Errorf("%d revisions of %d events, want one of each of %d", revised, distinct, done.Result.Changed)
	}
	if diff := cmp.Diff(clients, r.texts(t, untouched)); diff != "" {
		t.Errorf("what clients gave (-before +after):\n%s", diff)
	}
	awaitFor(t, "all to be stored and summed up", 2*time.Minute, func() bool {
		return r.number(t, `SELECT count(*) FROM events`) == int64(events)+more && r.number(t, summedUp) == 1
	})
	r.checkTotals(t)
}
