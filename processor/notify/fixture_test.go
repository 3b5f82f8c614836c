package notify

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/webhook"
)

// clock is a time that passes only when a test advances it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// world is a database with an account, and a notifier that is run by hand.
type world struct {
	t        *testing.T
	db       *schematest.DB
	clock    *clock
	notifier *Notifier
	store    *alert.Store
	account  schema.ID
}

func newWorld(t *testing.T, db *schematest.DB, smtp mail.Config) *world {
	t.Helper()
	w := &world{t: t, db: db, clock: &clock{at: time.Now().UTC().Truncate(time.Microsecond)}, store: alert.NewStore(db.Pool)}
	w.account = w.newAccount()
	w.notifier = w.newNotifier(smtp, w.clock.now)
	return w
}

func (w *world) newAccount() schema.ID {
	w.t.Helper()
	a, err := account.NewStore(w.db.Pool, time.Now).CreateAccount(w.t.Context(), "test", account.Enterprise)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.ID
}

func (w *world) newNotifier(smtp mail.Config, now func() time.Time) *Notifier {
	return New(webhook.Config{AllowCIDRs: []string{"127.0.0.1/32"}, AllowHTTP: true}, Deps{
		Pool: schematest.As(w.t, w.db.Pool, "outlay_processor"), Mail: mail.New(smtp), Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)), Now: now,
	})
}

// rule makes a rule of an account with one channel.
func (w *world) rule(of schema.ID, c alert.Channel) *alert.Rule {
	w.t.Helper()
	now, threshold := w.clock.now(), 1.0
	r := &alert.Rule{
		ID: schema.NewID(now), AccountID: of, Name: "n", Metric: alert.Events, Window: alert.Hour, Condition: alert.Above,
		Threshold: &threshold, Enabled: true, CreatedAt: now, UpdatedAt: now, Channels: []alert.Channel{c},
	}
	if err := w.store.Create(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// tell notes a message of a rule.
func (w *world) notify(r *alert.Rule, m alert.Message) schema.ID {
	w.t.Helper()
	m.RuleID, m.At = &r.ID, w.clock.now()
	if m.Data == nil {
		m.Data = map[string]string{"text": "<&> ü 🎉"}
	}
	ids, err := w.store.Notify(w.t.Context(), r.AccountID, &m, r.Channels)
	if err != nil {
		w.t.Fatal(err)
	}
	return ids[0]
}

// firing is a message with a cause of its own.
func firing(cause string) alert.Message {
	return alert.Message{Type: alert.AlertFiring, Cause: cause, Title: "Firing: <bot> & co", Summary: "$5.10 in 5 min, above $5.00"}
}

// step tries what is due now.
func (w *world) step() {
	w.t.Helper()
	var tries sync.WaitGroup
	for {
		started, err := w.notifier.start(w.t.Context(), &tries)
		if err != nil {
			w.t.Fatal(err)
		}
		if !started {
			break
		}
	}
	tries.Wait()
}

func (w *world) delivery(of, id schema.ID) alert.Delivery {
	w.t.Helper()
	found, err := w.store.DeliveriesOf(w.t.Context(), of, []schema.ID{id})
	if err != nil || len(found) != 1 {
		w.t.Fatalf("delivery: %v, %v", found, err)
	}
	return found[0]
}

// pending counts the messages that are not delivered.
func (w *world) pending() int64 {
	w.t.Helper()
	return w.backlog().Pending
}

func (w *world) backlog() backlog {
	w.t.Helper()
	b, err := w.notifier.outbox.backlog(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// received is one message that a receiver got and verified.
type received struct{ id, body string }

// receiver verifies what it gets with the library of Standard Webhooks and answers
// with one status after the other, the last one for ever.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	secret   string
	statuses []int
	got      []received
}

func newReceiver(t *testing.T, statuses ...int) *receiver {
	t.Helper()
	r := &receiver{statuses: statuses}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		verifier, err := standardwebhooks.NewWebhook(r.secret)
		if err == nil {
			err = verifier.Verify(body, q.Header)
		}
		if err != nil {
			t.Errorf("the signature: %v", err)
		}
		r.got = append(r.got, received{q.Header.Get("webhook-id"), string(body)})
		w.WriteHeader(r.statuses[min(len(r.got), len(r.statuses))-1])
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) webhook() alert.Channel { return alert.Channel{Type: alert.Webhook, Address: r.URL} }

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// patience is how long is waited for what has to happen.
const patience = 3 * time.Minute

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain", patience)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
