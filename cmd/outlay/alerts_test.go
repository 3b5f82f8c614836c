package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/outlayhq/outlay/schema/schematest"
)

// fullAlerts means that alerts are tested in real time: a stream of ten cents a second,
// and a window that is waited for. Otherwise ten times as much is sent, and what is
// stored is made older than it is.
func fullAlerts() bool { return os.Getenv("OUTLAY_E2E_ALERTS") == "full" }

// alerted is an installation with two processors, a rule on five dollars in five
// minutes, and a receiver that is notified.
type alerted struct {
	*installation
	conn       *pgx.Conn
	api        client
	receiver   *alertReceiver
	rule       string
	processors []*running
}

// allowReceiver permits the address of an alertReceiver.
var allowReceiver = []string{"--webhook-allow-cidr=127.0.0.1/32", "--webhook-allow-http"}

// alertReceiver answers 500 three times to each message before it takes it, and
// verifies each with the library of Standard Webhooks.
type alertReceiver struct {
	*httptest.Server
	mu     sync.Mutex
	secret string
	tries  map[string]int
	// began and taken are when a message came first and when it was taken, by type.
	began, taken map[string][]time.Time
}

func newAlertReceiver(t *testing.T) *alertReceiver {
	t.Helper()
	r := &alertReceiver{tries: map[string]int{}, began: map[string][]time.Time{}, taken: map[string][]time.Time{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return // The sender was killed.
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		verifier, err := standardwebhooks.NewWebhook(r.secret)
		if err == nil {
			err = verifier.Verify(body, q.Header)
		}
		var message struct{ Type string }
		if err == nil {
			err = json.Unmarshal(body, &message)
		}
		if err != nil {
			t.Errorf("what the webhook got: %v: %s", err, body)
		}
		schematest.CheckWebhook(t, body)
		id := q.Header.Get("webhook-id")
		if r.tries[id]++; r.tries[id] == 1 {
			r.began[message.Type] = append(r.began[message.Type], time.Now())
		}
		if r.tries[id] <= 3 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		r.taken[message.Type] = append(r.taken[message.Type], time.Now())
	}))
	t.Cleanup(r.Close)
	return r
}

// first returns when a type of message came first, and when it was taken.
func (r *alertReceiver) first(messageType string) (began, taken time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if times := r.began[messageType]; len(times) > 0 {
		began = times[0]
	}
	if times := r.taken[messageType]; len(times) > 0 {
		taken = times[0]
	}
	return began, taken
}

func newAlerted(t *testing.T) *alerted {
	t.Helper()
	a := &alerted{installation: newInstallation(t), receiver: newAlertReceiver(t)}
	a.startIngest(t)
	a.startQuery(t, allowReceiver...)
	a.processors = []*running{a.startProcessor(t, allowReceiver...), a.startProcessor(t, allowReceiver...)}
	var err error
	if a.conn, err = pgx.Connect(t.Context(), a.databaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.conn.Close(t.Context()) })
	a.api = signIn(t, a.credentials)
	var rule struct {
		ID       string
		Channels []struct{ Secret string }
	}
	body := fmt.Sprintf(`{"name":"Spend","metric":"cost_usd","window":"5m","condition":{"type":"above","value":5},"cooldown":"0s",
		"channels":[{"type":"webhook","url":%q}]}`, a.receiver.URL)
	if status := a.api.call(t, http.MethodPost, "/v1/alerts", body, &rule); status != http.StatusCreated {
		t.Fatalf("make a rule: status %d", status)
	}
	a.rule, a.receiver.secret = rule.ID, rule.Channels[0].Secret
	awaitFor(t, "a processor to check the rule", 2*time.Minute, func() bool { return a.leader() != nil && a.state(t) != "pending" })
	return a
}

func awaitFor(t *testing.T, what string, most time.Duration, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(most); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", most, what)
		}
	}
}

// leader is the processor that logged last that it checks the rules.
func (a *alerted) leader() *running {
	for _, p := range a.processors {
		text, err := os.ReadFile(p.log)
		if err == nil && strings.Contains(string(text), "this processor checks the alert rules") {
			return p
		}
	}
	return nil
}

func (a *alerted) state(t *testing.T) string {
	t.Helper()
	var rule struct{ State string }
	a.api.call(t, http.MethodGet, "/v1/alerts/"+a.rule, "", &rule)
	return rule.State
}

// stream sends ten cents at a time and returns when the window has more than five
// dollars.
func (a *alerted) stream(t *testing.T) time.Time {
	t.Helper()
	every := 100 * time.Millisecond
	if fullAlerts() {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 1; ; n++ {
		a.send(t)
		if n == 51 {
			return time.Now()
		}
		<-tick.C
	}
}

func (a *alerted) send(t *testing.T) {
	t.Helper()
	if status := (client{a.base, a.credentials.APIKey}).call(t, http.MethodPost, "/v1/track", `{"agent":"bot","cost_usd":0.1}`, &struct{}{}); status != http.StatusOK {
		t.Fatalf("track: status %d", status)
	}
}

// replace kills the processor that checks the rules, as a power cut does, and starts
// another one, so that there are two again.
func (a *alerted) replace(t *testing.T) {
	t.Helper()
	leader := a.leader()
	leader.kill()
	for i, p := range a.processors {
		if p == leader {
			a.processors[i] = a.startProcessor(t, allowReceiver...)
		}
	}
}

// passes lets the window pass.
func (a *alerted) passes(t *testing.T) {
	t.Helper()
	if fullAlerts() {
		return
	}
	// No sum may be on its way when the others are made older.
	time.Sleep(3 * time.Second)
	if _, err := a.conn.Exec(t.Context(), `UPDATE arrivals SET bucket = bucket - interval '7 minutes'`); err != nil {
		t.Fatal(err)
	}
}

// A rule fires and is notified once, and once when it ends, at full size within a minute of
// the crossing, with two processors of which the one that checks is killed between the crossing and
// the message, or between two tries to send it, and a receiver that fails three times.
func TestAlertFiresOnceAndResolvesOnce(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(*alerted){
		"killed at the crossing": func(*alerted) {},
		"killed between two tries": func(a *alerted) {
			awaitFor(t, "the first try", 3*time.Minute, func() bool { began, _ := a.receiver.first("alert.firing"); return !began.IsZero() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAlerted(t)
			crossed := a.stream(t)
			awaitFor(t, "the crossing to be stored", 2*time.Minute, func() bool { return a.stored(t) })
			kill(a)
			a.replace(t)
			awaitFor(t, "the message to be taken", 3*time.Minute, func() bool { _, taken := a.receiver.first("alert.firing"); return !taken.IsZero() })
			began, taken := a.receiver.first("alert.firing")
			t.Logf("fired %v after the crossing, taken at the fourth try %v after it", began.Sub(crossed).Round(time.Millisecond), taken.Sub(crossed).Round(time.Millisecond))
			if fullAlerts() && taken.Sub(crossed) > time.Minute {
				t.Errorf("notified %v after the crossing, want at most a minute", taken.Sub(crossed))
			}
			for range 5 { // It goes on for a while.
				a.send(t)
				time.Sleep(time.Second)
			}
			stopped := time.Now()
			a.passes(t)
			awaitFor(t, "the end to be taken", 8*time.Minute, func() bool { _, taken := a.receiver.first("alert.resolved"); return !taken.IsZero() })
			_, taken = a.receiver.first("alert.resolved")
			t.Logf("resolved: taken %v after the last event", taken.Sub(stopped).Round(time.Millisecond))
			time.Sleep(15 * time.Second) // Nothing more comes.
			a.checkOnce(t)
		})
	}
}

func (a *alerted) stored(t *testing.T) (is bool) {
	t.Helper()
	if err := a.conn.QueryRow(t.Context(), `SELECT coalesce(sum(cost_nano_usd), 0) > 5000000000 FROM arrivals`).Scan(&is); err != nil {
		t.Fatal(err)
	}
	return is
}

// checkOnce wants one message of each type, taken once, and one incident that ended.
func (a *alerted) checkOnce(t *testing.T) {
	t.Helper()
	a.receiver.mu.Lock()
	defer a.receiver.mu.Unlock()
	for _, messageType := range []string{"alert.firing", "alert.resolved"} {
		if began, taken := len(a.receiver.began[messageType]), len(a.receiver.taken[messageType]); began != 1 || taken != 1 {
			t.Errorf("%s came as %d messages and was taken %d times, want 1 and 1", messageType, began, taken)
		}
	}
	var incidents struct {
		Data []struct {
			State      string
			Summary    string
			Peak       json.Number
			Deliveries []struct{ State string }
		}
	}
	a.api.call(t, http.MethodGet, "/v1/incidents", "", &incidents)
	if len(incidents.Data) != 1 || incidents.Data[0].State != "resolved" || len(incidents.Data[0].Deliveries) != 2 {
		t.Errorf("incidents: %+v", incidents.Data)
	}
	t.Logf("incident: %+v", incidents.Data)
	if state := a.state(t); state != "no_data" && state != "ok" {
		t.Errorf("the rule is %s", state)
	}
}
