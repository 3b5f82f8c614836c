package upkeep

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
)

// world is a database in which no statement may delete more rows of a table than a slice has.
type world struct {
	t       *testing.T
	db      *schematest.DB
	conn    *pgx.Conn
	upkeep  *Upkeep
	account schema.ID
	now     time.Time
}

const limitSlices = `
CREATE FUNCTION limit_slice() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) FROM gone) > %d THEN
    RAISE EXCEPTION 'one statement deleted %% rows of %%', (SELECT count(*) FROM gone), TG_TABLE_NAME;
  END IF;
  RETURN NULL;
END $$`

func newWorld(t *testing.T, db *schematest.DB) *world {
	t.Helper()
	now := time.Now()
	w := &world{
		t: t, db: db, account: schema.NewID(now), now: now,
		upkeep: New(Deps{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}),
	}
	conn, err := pgx.ConnectConfig(t.Context(), db.Pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	w.conn = conn
	w.exec(`INSERT INTO accounts (id, name) VALUES ($1, 'test')`, w.account)
	w.upkeep.slice = slice
	w.exec(fmt.Sprintf(limitSlices, slice))
	for _, table := range append(tables(), "spend", "refused_events") {
		w.exec(fmt.Sprintf(`CREATE TRIGGER limit_slice AFTER DELETE ON %s REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION limit_slice()`, table))
	}
	return w
}

func tables() []string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.table
	}
	return names
}

func (w *world) exec(statement string, args ...any) {
	w.t.Helper()
	if _, err := w.conn.Exec(w.t.Context(), statement, args...); err != nil {
		w.t.Fatalf("%s: %v", statement, err)
	}
}

func (w *world) count(from string) (n int64) {
	w.t.Helper()
	if err := w.conn.QueryRow(w.t.Context(), `SELECT count(*) FROM `+from).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// slice is how many rows a statement may delete here, and backlog how many old ones each table has.
const (
	slice   = 500
	backlog = 3*slice + 50
)

// add are statements that add $2 rows of account $1, each of an age of $3 or a little more.
var add = map[string]string{
	"event_keys": `INSERT INTO event_keys SELECT $1, gen_random_uuid(), now() - $3::interval - n * interval '1 ms' FROM generate_series(1, $2) AS n`,
	"arrivals": `INSERT INTO arrivals SELECT $1, date_bin('1 hour', now() - $3::interval, '2000-01-01 00:00:00+00') - interval '1 hour' * (n % 3),
		60, 'agent ' || n, '', '', 1, 0, 0, 1, 1, 1, 0 FROM generate_series(1, $2) AS n`,
	"deliveries": `INSERT INTO deliveries (delivery_id, account_id, channel_id, channel_type, address, type, cause, title, summary, payload, state,
		created_at, next_try_at, give_up_at, finished_at)
		SELECT gen_random_uuid(), $1, gen_random_uuid(), 'email', '', 'x', 'c', '', '', '{}', 'delivered', now(), now(), now(), now() - $3::interval - n * interval '1 ms'
		FROM generate_series(1, $2) AS n`,
	"incidents": `INSERT INTO incidents (incident_id, account_id, kind, alert_id, name, metric, scope, started_at, ended_at, value, peak, peak_at, summary)
		SELECT gen_random_uuid(), $1, 'alert', gen_random_uuid(), '', 'cost_usd', '', '2020-01-01', now() - $3::interval - n * interval '1 ms', 1, 1, now(), ''
		FROM generate_series(1, $2) AS n`,
	"reports": `INSERT INTO reports (report_id, account_id, job_id, title, from_time, to_time, timezone, group_by, created_at)
		SELECT gen_random_uuid(), $1, gen_random_uuid(), 't', '2020-01-01', '2020-01-02', 'UTC', 'agent', now() - $3::interval - n * interval '1 ms'
		FROM generate_series(1, $2) AS n`,
	"jobs": `INSERT INTO jobs (job_id, account_id, kind, state, finished_at)
		SELECT gen_random_uuid(), $1, 'test', 'done', now() - $3::interval - n * interval '1 ms' FROM generate_series(1, $2) AS n`,
	"price_books": `INSERT INTO price_books (sha256, catalogue, first_used)
		SELECT sha256(c), c, now() - $3::interval - n * interval '1 ms'
		FROM generate_series(1, $2) AS n, convert_to(n || $1::uuid::text || $3::interval, 'UTF8') AS c`,
	"audit_log": `INSERT INTO audit_log (audit_id, account_id, at, action, target)
		SELECT gen_random_uuid(), $1, now() - $3::interval - n * interval '1 ms', 'a', '' FROM generate_series(1, $2) AS n`,
	"budget_resets": `INSERT INTO budget_resets (account_id, agent, at, period_start, period_end, epoch, spent_nano_usd)
		SELECT $1, 'agent', now() - $3::interval - n * interval '1 ms', '2020-01-01', '2020-01-02', n, 0 FROM generate_series(1, $2) AS n`,
	"intake": `INSERT INTO intake (account_id, hour, accepted, stored, duplicates, dead_letters)
		SELECT gen_random_uuid(), date_bin('1 hour', now() - $3::interval, '2000-01-01 00:00:00+00') - interval '1 hour' * (n % 3), 1, 1, 0, 0
		FROM generate_series(1, $2) AS n WHERE $1::uuid IS NOT NULL`,
	"dead_letters": `INSERT INTO dead_letters (topic, partition, "offset", reason, account_id, created_at)
		SELECT $3::interval::text, 0, n, 'refused', $1, now() - $3::interval - n * interval '1 ms' FROM generate_series(1, $2) AS n`,
	"session_shares": `INSERT INTO session_shares (share_id, account_id, session_id, token_sha256, include_metadata, created_at, expires_at, revoked_at)
		SELECT gen_random_uuid(), $1, 'ses_' || n, sha256(gen_random_uuid()::text::bytea), false, '2020-01-01',
			CASE WHEN n % 2 = 0 THEN now() - $3::interval - n * interval '1 ms' END, now() - $3::interval - n * interval '1 ms'
		FROM generate_series(1, $2) AS n`,
	"refresh_tokens": `INSERT INTO refresh_tokens (token_id, account_id, user_id, sign_in_id, secret_sha256, created_at, expires_at)
		SELECT gen_random_uuid(), $1, (SELECT id FROM users LIMIT 1), gen_random_uuid(), sha256(gen_random_uuid()::text::bytea), '2020-01-01', now() - $3::interval - n * interval '1 ms'
		FROM generate_series(1, $2) AS n`,
	"released_leases": `INSERT INTO released_leases (lease_id, account_id, barrier, released_at)
		SELECT gen_random_uuid(), $1, '{}', now() - $3::interval - n * interval '1 ms' FROM generate_series(1, $2) AS n`,
	"event_revisions": `INSERT INTO event_revisions (account_id, event_id, ts, job_id, cost_nano_usd, cost_source)
		SELECT $1, gen_random_uuid(), now() - $3::interval - n * interval '1 ms' - (SELECT raw_retention FROM schema_settings), gen_random_uuid(), 1, 'calculated'
		FROM generate_series(1, $2) AS n`,
}

// The keys of a month at a million a day are gone in one run, and no statement takes long.
func TestDeleteManyKeys(t *testing.T) {
	keys, err := strconv.Atoi(os.Getenv("OUTLAY_LARGE_KEYS"))
	if err != nil {
		keys = 100_000
	}
	w := newWorld(t, schematest.Database(t))
	w.upkeep = New(Deps{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Now: time.Now})
	w.exec(`DROP FUNCTION limit_slice CASCADE`)
	w.exec(add["event_keys"], w.account, keys, KeyRetention+time.Hour)
	w.exec(`SET statement_timeout = '30s'`) // As a processor's connections have it.
	began := time.Now()
	if err := w.upkeep.Delete(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d keys deleted in %v", keys, time.Since(began))
	if n := w.count("event_keys"); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// Whatever has piled up in a table, all that is too old goes, at most a slice at a time, and what is younger stays.
func TestDeleteWorksOffABacklog(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db)
		w.exec(`INSERT INTO users (id, account_id, email, password_hash, role) VALUES ($1, $2, 'a@example.com', 'x', 'viewer')`, schema.NewID(w.now), w.account)
		w.exec(`UPDATE schema_settings SET raw_retention = '100 days'`)
		const young = 7
		for _, r := range rules {
			w.exec(add[r.table], w.account, backlog, r.keep+time.Hour)
			w.exec(add[r.table], w.account, young, r.keep-5*time.Hour)
		}
		if err := w.upkeep.Delete(t.Context(), w.conn); err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			if n := w.count(r.table); n != young {
				t.Errorf("%s has %d rows, want %d", r.table, n, young)
			}
			if n := testutil.ToFloat64(w.upkeep.deleted.WithLabelValues(r.table)); n != float64(backlog) {
				t.Errorf("%s: %v rows counted, want %d", r.table, n, backlog)
			}
		}
	})
}

// Some rows stay whatever their age: an incident that lasts, the threshold of a cap without an end, the price book in force or
// pinned by a job, the latest reset of a cap.
func TestDeleteKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db)
		w.exec(`INSERT INTO budgets (account_id, agent, limit_nano_usd, period, timezone, on_unpriced) VALUES ($1, 'for ever', 1, 'total', 'UTC', 'allow')`, w.account)
		incident := `INSERT INTO incidents (incident_id, account_id, kind, alert_id, name, metric, scope, started_at, ended_at, value, peak, peak_at,
			summary, period_start, epoch, share) VALUES (gen_random_uuid(), $1, $2, $3, $4, 'cost_usd', $5, '2020-01-01', $6, 1, 1, '2020-01-01', '', '2020-01-01', 0, $7)`
		old := w.now.Add(-keepHistory - time.Hour)
		alertID, share := schema.NewID(w.now), 1.0
		w.exec(incident, w.account, "alert", &alertID, "open", "", nil, nil)
		w.exec(incident, w.account, "budget", nil, "of a month", "by month", &old, &share)
		w.exec(incident, w.account, "budget", nil, "of a total", "for ever", &old, &share)
		book := `INSERT INTO price_books (sha256, catalogue, first_used, taken_at) SELECT sha256(c), c, '2020-01-01', $2 FROM convert_to($1, 'UTF8') AS c`
		w.exec(book, "in force", time.Date(2020, 3, 1, 0, 0, 0, 0, time.UTC))
		w.exec(book, "before", time.Date(2020, 2, 1, 0, 0, 0, 0, time.UTC))
		w.exec(book, "pinned", nil)
		w.exec(`INSERT INTO jobs (job_id, account_id, kind) VALUES ($1, $2, 'reprice')`, alertID, w.account)
		w.exec(`INSERT INTO reprices (job_id, account_id, from_time, to_time, dry_run, received_before, price_book, created_at, next_time)
			VALUES ($1, $2, '2020-01-01', '2020-01-02', true, now(), sha256('pinned'), now(), now())`, alertID, w.account)
		w.exec(add["budget_resets"], w.account, 3, keepHistory+time.Hour)
		if err := w.upkeep.Delete(t.Context(), w.conn); err != nil {
			t.Fatal(err)
		}
		var left []string
		rows, _ := w.conn.Query(t.Context(), `SELECT name FROM incidents UNION ALL SELECT convert_from(catalogue, 'UTF8') FROM price_books
			UNION ALL SELECT 'reset ' || epoch FROM budget_resets ORDER BY 1`)
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"in force", "of a total", "open", "pinned", "reset 1"}, left); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	})
}

// Old spend, refused events and sums by arrival become rows of coarser buckets, however many there are: sums over whole buckets stay
// as they are, and what is young stays fine.
func TestFoldWorksOffABacklog(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db)
		const n = backlog
		w.exec(`INSERT INTO spend SELECT $1, 'agent ' || n % 7, q - interval '15 minutes' * (n / 7), n, 1
			FROM generate_series(1, $2::int) AS n, date_bin('15 minutes', now() - interval '40 days', '2000-01-01 00:00:00+00') AS q`, w.account, n)
		w.exec(`INSERT INTO refused_events SELECT $1, 'agent ' || n % 7, 'm', 'p', q - interval '15 minutes' * (n / 7), 1, 2, 3, n
			FROM generate_series(1, $2::int) AS n, date_bin('15 minutes', now() - interval '100 days', '2000-01-01 00:00:00+00') AS q`, w.account, n)
		w.exec(`INSERT INTO arrivals SELECT $1, q - interval '1 minute' * (n % 3000), 1, 'agent ' || n, 'p', 'm', 1, 0, 0, 1, 1, n, 0
			FROM generate_series(1, $2::int) AS n, date_trunc('minute', now() - interval '3 hours') AS q`, w.account, n)
		w.exec(`INSERT INTO spend VALUES ($1, 'young', date_bin('15 minutes', now() - interval '39 days', '2000-01-01 00:07:30+00'), 1, 1)`, w.account)

		const sums = `SELECT concat_ws(' ',
			(SELECT sum(cost_nano_usd) || '/' || sum(events) FROM spend WHERE agent <> 'young'),
			(SELECT sum(cost_nano_usd) || '/' || sum(events) || '/' || sum(input_tokens) || '/' || sum(output_tokens) FROM refused_events),
			(SELECT sum(cost_nano_usd) || '/' || sum(events) FROM arrivals),
			(SELECT md5(string_agg(agent || day || cost, ',' ORDER BY agent, day)) FROM (
				SELECT agent, date_trunc('day', bucket, 'UTC') AS day, sum(cost_nano_usd) AS cost FROM spend WHERE agent <> 'young' GROUP BY 1, 2) AS days))`
		var before, after string
		if err := w.conn.QueryRow(t.Context(), sums).Scan(&before); err != nil {
			t.Fatal(err)
		}
		if err := w.upkeep.FoldArrivals(t.Context(), w.conn); err != nil {
			t.Fatal(err)
		}
		if err := w.upkeep.FoldDays(t.Context(), w.conn); err != nil {
			t.Fatal(err)
		}
		if err := w.conn.QueryRow(t.Context(), sums).Scan(&after); err != nil {
			t.Fatal(err)
		}
		if before != after {
			t.Errorf("sums were %s and are %s", before, after)
		}
		const notDays = ` WHERE bucket <> date_trunc('day', bucket, 'UTC')`
		edge := w.now.Add(-keepSpendQuarters).Truncate(day)
		var late int64
		if err := w.conn.QueryRow(t.Context(), `SELECT count(*) FROM spend`+notDays+` AND bucket < $1`, edge).Scan(&late); err != nil || late != 0 {
			t.Errorf("%d rows of old spend are not of days: %v", late, err)
		}
		if err := w.conn.QueryRow(t.Context(), `SELECT count(*) FROM refused_events`+notDays+` AND bucket < $1`,
			w.now.Add(-keepRefusedQuarters).Truncate(day)).Scan(&late); err != nil || late != 0 {
			t.Errorf("%d rows of old refused events are not of days: %v", late, err)
		}
		if n := w.count(`spend WHERE agent = 'young'` + ` AND bucket <> date_trunc('day', bucket, 'UTC')`); n != 1 {
			t.Errorf("young spend was folded")
		}
		if n := w.count(`arrivals WHERE minutes = 1`); n != 0 {
			t.Errorf("%d sums of minutes are left", n)
		}
		if n := w.count(`arrivals WHERE minutes = 60`); n == 0 {
			t.Error("no sums of hours")
		}
	})
}
