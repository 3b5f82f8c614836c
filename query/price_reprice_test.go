package query_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/reprice"
)

// Repricing is asked for by an admin, becomes a job that pins the prices, and is in the audit log.
func TestRepriceBecomesAJob(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		w.alice.post("/v1/prices/overrides", `{"match":"ours","input_usd_per_mtok":1,"output_usd_per_mtok":2}`).want(http.StatusCreated)
		w.bob.post("/v1/prices/overrides", `{"match":"theirs","input_usd_per_mtok":1,"output_usd_per_mtok":2}`).want(http.StatusCreated)
		answer := w.alice.post("/v1/prices/reprice", `{"from":"2026-11-01","to":"2026-11-20T12:00:00+01:00","model":"ours","dry_run":true}`)
		var asked jobAnswer
		answer.decode(http.StatusAccepted, &asked)
		if answer.header.Get("Location") != "/v1/jobs/"+asked.ID || asked.Kind != "reprice" || asked.State != "queued" {
			t.Errorf("asked for %+v at %q", asked, answer.header.Get("Location"))
		}
		sum := sha256.Sum256(price.Default().Catalogue())
		if a := asked.Args; a["from"] != "2026-11-01T00:00:00Z" || a["to"] != "2026-11-20T11:00:00Z" || a["model"] != "ours" || a["dry_run"] != true ||
			a["price_book"] != hex.EncodeToString(sum[:]) {
			t.Errorf("the job was told %v", a)
		}
		id, err := schema.ParseID(job.Prefix, asked.ID)
		if err != nil {
			t.Fatal(err)
		}
		// What is changed later is not in it.
		w.alice.post("/v1/prices/overrides", `{"match":"later","input_usd_per_mtok":1,"output_usd_per_mtok":2}`).want(http.StatusCreated)
		store := reprice.NewStore(pool)
		state, err := store.State(t.Context(), w.alice.account, id)
		if err != nil {
			t.Fatal(err)
		}
		book, err := store.Book(t.Context(), &state)
		if err != nil {
			t.Fatal(err)
		}
		for model, priced := range map[string]bool{"ours": true, "theirs": false, "later": false, "gpt-4o": true} {
			if _, ok := book.Find("", model, w.now); ok != priced {
				t.Errorf("%s is priced: %v, want %v", model, ok, priced)
			}
		}
		if got := w.acts("price.reprice"); got != 1 {
			t.Errorf("%d lines in the audit log, want 1", got)
		}
	})
}

// acts is how many acts of a kind the account's log has.
func (w *world) acts(action string) (n int) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.t.Context(), `SELECT count(*) FROM audit_log WHERE action = $1`, action).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// An account has one job at a time, also when two ask at once; the other is told which.
func TestRepriceRunsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	const body = `{"from":"2026-11-01","to":"2026-12-01"}`
	answers := make(chan *answer, 4)
	for range cap(answers) {
		go func() { answers <- w.alice.post("/v1/prices/reprice", body) }()
	}
	var accepted jobAnswer
	var refused []*answer
	for range cap(answers) {
		if a := <-answers; a.status == http.StatusAccepted {
			a.decode(http.StatusAccepted, &accepted)
		} else {
			refused = append(refused, a)
		}
	}
	if len(refused) != 3 {
		t.Fatalf("%d of 4 were refused, want 3", len(refused))
	}
	for _, a := range refused {
		if p := a.refused(http.StatusConflict); !strings.Contains(p.Detail, accepted.ID) || a.header.Get("Location") != "/v1/jobs/"+accepted.ID {
			t.Errorf("refused with %+v, at %q; want one that names %s", p, a.header.Get("Location"), accepted.ID)
		}
	}
	w.bob.post("/v1/prices/reprice", body).want(http.StatusAccepted)
	w.exec(`UPDATE jobs SET state = 'done', finished_at = now() WHERE account_id = $1`, w.alice.account)
	w.alice.post("/v1/prices/reprice", body).want(http.StatusAccepted)
}

// The catalogue of the operator's setting is what is pinned.
func TestRepricePinsTheOperatorsPrices(t *testing.T) {
	t.Parallel()
	const catalogue = `{"version":1,"providers":[{"id":"acme","models":[{"id":"m","prices":[{"input":1,"output":2}]}]}]}`
	book, err := price.Parse([]byte(catalogue))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, database(t), func(c *query.Config) { c.Prices = func() *price.Book { return book } })
	w.alice.post("/v1/prices/reprice", `{"from":"2026-11-01","to":"2026-12-01"}`).want(http.StatusAccepted)
	var kept string
	if err := w.pool.QueryRow(t.Context(), `SELECT convert_from(catalogue, 'UTF8') FROM price_books`).Scan(&kept); err != nil || kept != catalogue {
		t.Errorf("pinned %q, %v", kept, err)
	}
}

// What cannot be asked for is refused with the field that is wrong, and a viewer may not ask.
func TestRepriceIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for body, field := range map[string]string{
		`{}`:                                "from",
		`{"from":"2026-11-01"}`:             "to",
		`{"from":"soon","to":"2026-11-01"}`: "from",
		`{"from":"2026-11-01","to":"2026-11-01"}`:                                            "from",
		`{"from":"2026-11-02","to":"2026-11-01"}`:                                            "from",
		`{"from":"1999-11-01","to":"2026-11-01"}`:                                            "from",
		`{"from":"2026-11-01","to":"2026-12-01","model":""}`:                                 "model",
		`{"from":"2026-11-01","to":"2026-12-01","model":"a\u0000"}`:                          "model",
		`{"from":"2026-11-01","to":"2026-12-01","model":1}`:                                  "model",
		`{"from":"2026-11-01","to":"2026-12-01","dry_run":"yes"}`:                            "dry_run",
		`{"from":"2026-11-01","to":"2026-12-01","agent":"a"}`:                                "agent",
		`{"from":"2026-11-01","to":"2026-12-01","model":"` + strings.Repeat("x", 201) + `"}`: "model",
	} {
		if p := w.alice.post("/v1/prices/reprice", body).refused(http.StatusUnprocessableEntity); p.Errors[0].Field != field {
			t.Errorf("%.80s: %+v, want an error of %s", body, p.Errors, field)
		}
	}
	reader := w.tokenFor(w.alice.colleague("v@example.org", account.Viewer))
	w.send(reader, http.MethodPost, "/v1/prices/reprice", `{"from":"2026-11-01","to":"2026-12-01"}`).refused(http.StatusForbidden)
	if n := w.acts("price.reprice"); n != 0 {
		t.Errorf("%d lines in the audit log of what was refused", n)
	}
}
