package report

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/processor/notify"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/report"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/webhook"
)

// hook is a receiver of webhooks that verifies what it gets with the library of Standard Webhooks, and answers 500 to the first
// try of each message.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	secret string
	tries  map[string]int
	taken  []readyNote
}

// readyNote is a message of a report.
type readyNote struct {
	Type string `json:"type"`
	Data struct {
		ReportID      string      `json:"report_id"`
		ScheduleID    *string     `json:"schedule_id"`
		Title         string      `json:"title"`
		SizeBytes     int64       `json:"size_bytes"`
		Complete      bool        `json:"complete"`
		CompleteUntil *time.Time  `json:"complete_until"`
		CostUSD       json.Number `json:"cost_usd"`
		Download      string      `json:"download"`
		Summary       string      `json:"summary"`
	} `json:"data"`
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{tries: map[string]int{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		body, err := io.ReadAll(q.Body)
		verifier, wrong := standardwebhooks.NewWebhook(h.secret)
		if err == nil && wrong == nil {
			err = verifier.Verify(body, q.Header)
		}
		if err != nil || wrong != nil {
			t.Errorf("the message does not verify: %v %v", err, wrong)
		}
		schematest.CheckWebhook(t, body)
		if id := q.Header.Get("webhook-id"); h.tries[id] == 0 {
			h.tries[id]++
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		var m readyNote
		if err := json.Unmarshal(body, &m); err != nil {
			t.Error(err)
		}
		h.taken = append(h.taken, m)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) received() []readyNote {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]readyNote(nil), h.taken...)
}

// notifiesTo makes a webhook the only channel of the ledger's account.
func (l *ledger) notifiesTo(h *hook) {
	l.t.Helper()
	channels, err := alert.NewStore(l.pool).SetChannels(l.t.Context(), l.account, nil,
		[]alert.Channel{{Type: alert.Webhook, Address: h.URL}}, time.Now())
	if err != nil {
		l.t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.secret = channels[0].Secret
}

// ask asks for a report as a user does.
func (l *ledger) ask(r report.Request) report.Report {
	l.t.Helper()
	r.Normalise()
	asked, err := report.NewStore(l.pool).Ask(l.t.Context(), report.New{Request: r, AccountID: l.account, At: time.Now().UTC().Truncate(time.Microsecond)})
	if err != nil {
		l.t.Fatal(err)
	}
	return asked
}

// runNotifier sends messages until the test ends.
func runNotifier(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	n := notify.New(webhook.Config{AllowCIDRs: []string{"127.0.0.1/32"}, AllowHTTP: true}, notify.Deps{
		Pool: pool, Mail: mail.New(mail.DefaultConfig()), Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Now: time.Now,
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Every report that becomes ready, asked for or scheduled, is notified once to the account's channels, signed, with its figures; other
// accounts are not notified of it. Two processors and a receiver that fails at first change nothing.
func TestReadyReportIsNotifiedOnce(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		l, other := newLedger(t, db.Pool, "Notified"), newLedger(t, db.Pool, "Not notified")
		h, strange := newHook(t), newHook(t)
		l.notifiesTo(h)
		other.notifiesTo(strange)
		l.store(call{at: november.Add(time.Hour), agent: "a", provider: "openai", model: "m", in: 10, out: 5, cost: 1_234_567_890_123, source: "calculated"})
		l.refresh()
		x := l.schedule(week, "a@example.com")
		asked := l.ask(report.Request{Title: "<November> ü 🎉", From: november, To: november.AddDate(0, 1, 0)})
		for range 2 {
			runMaker(t, db.Pool, mail.DefaultConfig())
			runNotifier(t, db.Pool)
		}
		eventually(t, "both messages", func() bool { return len(h.received()) >= 2 })
		time.Sleep(2 * time.Second) // A message too many would come now.
		messages := h.received()
		if len(messages) != 2 || len(strange.received()) != 0 {
			t.Fatalf("%d messages, and %d to another account; want 2 and none", len(messages), len(strange.received()))
		}
		for _, m := range messages {
			r, err := schema.ParseID(report.Prefix, m.Data.ReportID)
			if err != nil {
				t.Fatal(err)
			}
			ready, err := report.NewStore(db.Pool).Get(t.Context(), l.account, r)
			if err != nil || ready.Status != report.Ready || m.Type != "report.ready" || m.Data.Title != ready.Title || m.Data.SizeBytes != ready.SizeBytes ||
				m.Data.Download != "/v1/reports/"+m.Data.ReportID+"/download" {
				t.Errorf("notified %+v of %+v, %v", m, ready, err)
			}
			switch ready.ID {
			case asked.ID:
				if want := "<November> ü 🎉, 2025-11-01 to 2025-11-30: $1,234.57 spent on 1 event."; m.Data.ScheduleID != nil ||
					m.Data.CostUSD != "1234.567890123" || m.Data.Summary != want {
					t.Errorf("notified %+v of the report that was asked for", m.Data)
				}
			default:
				if m.Data.ScheduleID == nil || *m.Data.ScheduleID != x.ID.Text(report.SchedulePrefix) {
					t.Errorf("notified %+v of the scheduled report", m.Data)
				}
			}
		}
	})
}

// A report is not ready before it is noted whom to notify, and nobody is notified before it is ready: whichever of the two the database
// refuses, the other did not happen.
func TestReportIsReadyAndNotifiedOrNeither(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]struct{ make, drop string }{
		"to tell": {`ALTER TABLE deliveries ADD CONSTRAINT refuse CHECK (type <> 'report.ready')`, `ALTER TABLE deliveries DROP CONSTRAINT refuse`},
		"to commit": {
			`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''refused''; END';
			CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON reports DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`,
			`DROP TRIGGER refuse ON reports`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := schematest.Database(t)
			l, h := newLedger(t, db.Pool, "Both"), newHook(t)
			l.notifiesTo(h)
			l.exec(refuse.make)
			asked := l.ask(report.Request{From: november, To: november.AddDate(0, 1, 0)})
			runMaker(t, db.Pool, mail.DefaultConfig())
			eventually(t, "a try to fail", func() bool {
				var tried bool
				if err := l.pool.QueryRow(t.Context(), `SELECT error IS NOT NULL FROM jobs WHERE job_id = $1`, asked.JobID).Scan(&tried); err != nil {
					t.Fatal(err)
				}
				return tried
			})
			var noted, ready bool
			if err := l.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM deliveries),
				EXISTS (SELECT FROM reports WHERE ready_at IS NOT NULL) OR EXISTS (SELECT FROM report_files)`).Scan(&noted, &ready); err != nil || noted || ready {
				t.Errorf("noted %v, ready %v, want neither: %v", noted, ready, err)
			}
			l.exec(refuse.drop)
			runNotifier(t, db.Pool)
			eventually(t, "the message", func() bool { return len(h.received()) == 1 })
			if r, err := report.NewStore(l.pool).Get(t.Context(), l.account, asked.ID); err != nil || r.Status != report.Ready {
				t.Errorf("notified without being ready: %+v, %v", r, err)
			}
		})
	}
}
