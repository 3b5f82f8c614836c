package query_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// tenantRelations are what the role of the query tier may read and what has an
// account, found in the catalogue, so that a new table is in the test by itself.
const tenantRelations = `
SELECT c.oid::regclass::text, has_table_privilege('outlay_query', c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE n.nspname IN ('public', 'tenant') AND c.relkind IN ('r', 'v', 'p') AND a.attname = 'account_id'
ORDER BY 1`

// A statement that forgets its account sees the rows of the one it works for all
// the same, in every relation that the role of the query tier can read.
func TestForgottenAccountShowsNothing(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		w.populate(w.alice)
		w.populate(w.bob)
		w.exec(`SELECT fold_sessions(1000)`)
		w.store(w.alice.newEvent(nil), w.bob.newEvent(nil))
		relations := w.relations()
		for _, needed := range []string{"tenant.events", "tenant.usage_daily", "tenant.usage_daily_agents", "users", "api_keys", "session_shares", "audit_log", "refresh_tokens", "alert_rules", "incidents", "deliveries"} {
			if !relations[needed] {
				t.Errorf("the role cannot read %s, or it is not there", needed)
			}
		}
		if relations["alert_secrets"] {
			t.Error("the role reads secrets")
		}
		if relations["events"] || relations["usage_daily"] || relations["usage_daily_agents"] {
			t.Error("the role reads events or aggregates past the views of its schema")
		}
		if guarded, err := usage.NewStore(pool, time.Second).Guarded(t.Context()); err != nil || !guarded {
			t.Fatalf("Guarded = %v, %v", guarded, err)
		}
		for relation, readable := range relations {
			if readable {
				w.checkForgotten(relation)
			}
		}
	})
}

// populate gives a person's account a row in every table that HTTP leads to.
func (w *world) populate(p *person) {
	w.t.Helper()
	w.store(p.newEvent(nil))
	w.exec(`INSERT INTO event_keys (account_id, event_id) VALUES ($1, $2)`, p.account, schema.NewID(w.now))
	w.exec(`INSERT INTO spend (account_id, agent, bucket, cost_nano_usd, events) VALUES ($1, 'a', '2026-01-01', 1, 1)`, p.account)
	p.addJob("test")
	p.addReport()
	w.login(p.user.Email, password).want(http.StatusOK)
	p.share("one", "")
	p.put("/v1/account/retention", `{"retention_days":90}`).want(http.StatusOK)
	p.post("/v1/api-keys", `{"name":"n"}`).want(http.StatusCreated)
	p.post("/v1/prices/overrides", `{"match":"m","input_usd_per_mtok":1,"output_usd_per_mtok":1}`).want(http.StatusCreated)
	p.alertEverything()
	p.repriceEverything()
}

// repriceEverything leaves a job that has changed an event.
func (p *person) repriceEverything() {
	p.t.Helper()
	p.post("/v1/prices/reprice", `{"from":"2026-01-01","to":"2026-02-01"}`).want(http.StatusAccepted)
	p.exec(`INSERT INTO reprice_differences SELECT job_id, account_id, '2026-01-01', 'p', 'm', 1, 1, 2, 0, 0 FROM reprices WHERE account_id = $1`, p.account)
	p.exec(`INSERT INTO event_revisions SELECT account_id, job_id, from_time, job_id, now(), 1, 'calculated', 'p/m' FROM reprices WHERE account_id = $1`, p.account)
}

// alertEverything leaves a rule that was checked, and an incident that was told.
func (p *person) alertEverything() {
	p.t.Helper()
	rule := p.newAlert(`{"name":"n","metric":"events","window":"5m","condition":{"type":"above","value":1},"channels":[{"type":"webhook","url":"https://a.example"}]}`)
	p.post("/v1/alerts/"+rule.ID+"/test", "").want(http.StatusAccepted)
	p.exec(`INSERT INTO alert_status (alert_id, account_id, state, checked_at) SELECT alert_id, account_id, 'ok', now() FROM alert_rules WHERE account_id = $1`, p.account)
	p.exec(`INSERT INTO delivery_tries SELECT delivery_id, account_id, 1, now(), 1, 'timeout', NULL FROM deliveries WHERE account_id = $1`, p.account)
	p.exec(`INSERT INTO incidents (incident_id, account_id, kind, alert_id, name, metric, scope, started_at, value, peak, peak_at, summary)
		SELECT alert_id, account_id, 'alert', alert_id, name, metric, '', now(), 1, 1, now(), 's' FROM alert_rules WHERE account_id = $1`, p.account)
}

func (w *world) relations() map[string]bool {
	w.t.Helper()
	rows, _ := w.pool.Query(w.t.Context(), tenantRelations)
	relations := map[string]bool{}
	var name string
	var readable bool
	_, err := pgx.ForEachRow(rows, []any{&name, &readable}, func() error {
		relations[name] = readable
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return relations
}

// checkForgotten counts the rows of a relation as a statement of Alice's would that
// names no account.
func (w *world) checkForgotten(relation string) {
	w.t.Helper()
	var own, strange int
	err := usage.NewStore(w.pool, time.Second).Within(w.t.Context(), w.alice.account, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*) FILTER (WHERE account_id = $1), count(*) FILTER (WHERE account_id <> $1) FROM `+relation,
			w.alice.account).Scan(&own, &strange)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if strange != 0 {
		w.t.Errorf("%s shows %d rows of other accounts", relation, strange)
	}
	if own == 0 && !strings.HasPrefix(relation, "budget") && relation != "refused_events" {
		w.t.Errorf("%s shows no row at all: the test has put none there, or the role sees too little", relation)
	}
}
