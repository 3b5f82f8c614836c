package pricing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/tariff"
)

// catalogue has one model, which costs as much a token in and out.
func catalogue(usdPerMtok string) string {
	return `{"version":1,"providers":[{"id":"acme","models":[{"id":"m","prices":[{"input":` + usdPerMtok + `,"output":` + usdPerMtok + `}]}]}]}`
}

func sum(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}

func parse(t *testing.T, text string) *price.Book {
	t.Helper()
	b, err := price.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cost is what a million tokens of the model cost, in USD, or the source.
func cost(t *testing.T, b *price.Book) string {
	t.Helper()
	q, err := b.Quote("acme", "m", time.Now(), price.Usage{Input: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	if q.Source != price.Calculated {
		return string(q.Source)
	}
	return schema.NanoUSD(q.CostNanoUSD).String()
}

// booksOn returns Books without a database whose published prices start at 1 USD.
func booksOn(t *testing.T, cfg Config, log *slog.Logger) *Books {
	t.Helper()
	b := New(cfg, Deps{Metrics: prometheus.NewRegistry(), Log: log, Now: time.Now})
	b.published, b.overrides = parse(t, catalogue("1")), map[schema.ID][]price.Override{}
	b.publish()
	return b
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A catalogue is taken when it is read, unless it looks like a mistake; then it waits for approval, and log and metrics
// say so. What cannot be read changes nothing.
func TestRefreshIsGuarded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prices.json")
	var log bytes.Buffer
	b := booksOn(t, Config{File: path, Interval: time.Hour, Approve: []string{strings.ToUpper(sum(catalogue("0")))}}, slog.New(slog.NewTextHandler(&log, nil)))
	for _, step := range []struct{ name, text, cost, outcome, logged string }{
		{"no file", "", "1", "failed", "no such file"},
		{"a price change", catalogue("2"), "2", "applied", "prices applied"},
		{"the same again", catalogue("2"), "2", "unchanged", ""},
		{"ten times", catalogue("20"), "20", "applied", "prices applied"},
		{"more than ten times", catalogue("1.9"), "20", "waiting", "--prices-approve"},
		{"still more than ten times", catalogue("1.9"), "20", "waiting", ""},
		{"broken while one waits", `{"version":1,`, "20", "failed", "decode price catalogue"},
		{"another version", `{"version":2,"providers":[]}`, "20", "failed", "format version"},
		{"gone", `{"version":1,"providers":[]}`, "20", "waiting", "none"},
		{"back", catalogue("20"), "20", "unchanged", ""},
		{"free, and approved", catalogue("0"), "0", "applied", "prices applied"},
		{"no longer free", catalogue("1"), "0", "waiting", "from 0 to 1 USD"},
	} {
		log.Reset()
		if step.text != "" {
			write(t, path, step.text)
		}
		before := testutil.ToFloat64(b.metrics.refreshes.WithLabelValues(step.outcome))
		b.refresh(t.Context())
		if got := cost(t, b.Of(schema.ID{15: 1})); got != step.cost {
			t.Errorf("%s: cost %s, want %s", step.name, got, step.cost)
		}
		if n := testutil.ToFloat64(b.metrics.refreshes.WithLabelValues(step.outcome)) - before; n != 1 {
			t.Errorf("%s: counted %v times as %s, want once", step.name, n, step.outcome)
		}
		if step.outcome != "failed" {
			want := map[bool]float64{true: 1}[step.outcome == "waiting"]
			if n := testutil.ToFloat64(b.metrics.waiting); n != want {
				t.Errorf("%s: waiting = %v, want %v", step.name, n, want)
			}
		}
		if step.logged == "" && log.Len() > 0 || !strings.Contains(log.String(), step.logged) {
			t.Errorf("%s: logged %q, want %q in it", step.name, log.String(), step.logged)
		}
	}
}

// An address is read like a file; what it answers besides 200 changes nothing, and its secrets stay out of the log.
func TestRefreshFromAnAddress(t *testing.T) {
	t.Parallel()
	status, text := http.StatusOK, catalogue("3")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
	defer server.Close()
	var log bytes.Buffer
	b := booksOn(t, Config{URL: server.URL + "/?token=secret", Interval: time.Hour}, slog.New(slog.NewTextHandler(&log, nil)))
	b.refresh(t.Context())
	if got := cost(t, b.Of(schema.ID{})); got != "3" {
		t.Errorf("cost %s, want 3", got)
	}
	status, text = http.StatusNotFound, catalogue("4")
	b.refresh(t.Context())
	server.Close()
	b.refresh(t.Context())
	if got := cost(t, b.Of(schema.ID{})); got != "3" {
		t.Errorf("after failures: cost %s, want 3", got)
	}
	if strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "status 404") {
		t.Errorf("log: %s", log.String())
	}
}

// The prices that held last hold after a restart as well, while nothing can be read; and what is read then is compared with them.
func TestLastPricesSurviveARestart(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		path := filepath.Join(t.TempDir(), "prices.json")
		cfg := Config{File: path, Interval: time.Hour, Approve: []string{sum(catalogue("5"))}}
		start := func(step, want string) {
			t.Helper()
			t.Run(step, func(t *testing.T) {
				if got := cost(t, runBooks(t, db.Pool, cfg).Of(schema.ID{})); got != want {
					t.Errorf("cost %s, want %s", got, want)
				}
			})
		}
		start("no file", "unpriced")
		write(t, path, catalogue("5"))
		start("the first prices", "5")
		write(t, path, catalogue("7"))
		start("a change", "7")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		start("no file again", "7")
		write(t, path, catalogue("0.1"))
		start("a suspicious change", "7")
		write(t, path, catalogue("5"))
		start("back", "5")
	})
}

// runBooks runs Books on a database of the test's own until the test ends, and returns once they are ready.
func runBooks(t *testing.T, pool *pgxpool.Pool, cfg Config) *Books {
	t.Helper()
	b := New(cfg, Deps{Pool: schematest.As(t, pool, "outlay_ingest"), Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if b.Of(schema.ID{}) != nil || b.Ready() == nil {
		t.Error("books are known before they were read")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	within(t, time.Minute, "books ready", func() bool { return b.Ready() == nil })
	return b
}

func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(d)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, d)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// An override is obeyed by its account alone, and goes on being obeyed while the database is away and
// when the published prices change.
func TestOverridesAreObeyed(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	path := filepath.Join(t.TempDir(), "prices.json")
	write(t, path, catalogue("2"))
	// Every model of the built-in catalogue is gone, which needs approval.
	b := runBooks(t, db.Pool, Config{File: path, Interval: 20 * time.Millisecond, Approve: []string{sum(catalogue("2"))}})
	mine, other := schema.ID{15: 1}, schema.ID{15: 2}
	if got := cost(t, b.Of(mine)); got != "2" {
		t.Fatalf("cost before: %s, want the file's 2", got)
	}
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO accounts (id, name) VALUES ($1, 'mine'), ($2, 'other')`, mine, other); err != nil {
		t.Fatal(err)
	}
	rate := price.Rate(7_000_000)
	o := tariff.Override{
		ID: schema.NewID(time.Now()), AccountID: mine, CreatedAt: time.Now(),
		Override: price.Override{Match: "m", Rates: price.Rates{Input: &rate, Output: &rate}},
	}
	if err := tariff.NewStore(db.Pool).Add(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	within(t, time.Minute, "override obeyed", func() bool { return cost(t, b.Of(mine)) == "7" })
	if got := cost(t, b.Of(other)); got != "2" {
		t.Errorf("another account pays %s, want 2", got)
	}
	// The connection that listens is cut, again and again.
	for range 3 {
		if _, err := db.Pool.Exec(t.Context(), `
			SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%SELECT override_id%' AND pid <> pg_backend_pid()`); err != nil {
			t.Fatal(err)
		}
		if got := cost(t, b.Of(mine)); got != "7" {
			t.Errorf("with the feed cut: cost %s, want 7", got)
		}
	}
	write(t, path, catalogue("3"))
	within(t, time.Minute, "new published price", func() bool { return cost(t, b.Of(other)) == "3" })
	if got := cost(t, b.Of(mine)); got != "7" {
		t.Errorf("after new published prices: cost %s, want the override's 7", got)
	}
	if err := tariff.NewStore(db.Pool).Delete(t.Context(), mine, o.ID); err != nil {
		t.Fatal(err)
	}
	within(t, time.Minute, "override removed", func() bool { return cost(t, b.Of(mine)) == "3" })
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, ""},
		{Config{File: "f", Interval: time.Hour}, ""},
		{Config{File: "f", URL: "u", Interval: time.Hour}, "exclude"},
		{Config{URL: "u", Interval: time.Millisecond}, "--prices-interval"},
	} {
		if err := fmt.Sprint(c.cfg.Validate()); !strings.Contains(err, c.want) {
			t.Errorf("%+v: %s, want %q", c.cfg, err, c.want)
		}
	}
}
