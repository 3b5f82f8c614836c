package notify

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/schematest"
)

// A receiver that answers 500 three times gets the same message under the same id,
// signed anew, with growing waits, until it takes it, and then no more.
func TestWebhookIsTriedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db, mail.DefaultConfig())
		r := newReceiver(t, 500, 500, 500, 200)
		rule := w.rule(w.account, r.webhook())
		r.secret = rule.Channels[0].Secret
		id := w.notify(rule, firing("1"))
		var waits []time.Duration
		for range 6 {
			w.step()
			d := w.delivery(w.account, id)
			if d.State != alert.Pending {
				break
			}
			w.step() // Nothing is due yet.
			waits = append(waits, d.NextTryAt.Sub(w.clock.now()))
			w.clock.set(d.NextTryAt)
		}
		got := r.all()
		if len(got) != 4 || slices.ContainsFunc(got, func(m received) bool { return m != got[0] }) || got[0].id != id.Text(alert.DeliveryPrefix) {
			t.Errorf("received %+v", got)
		}
		if !slices.IsSorted(waits) || waits[0] < firstWait/2 || waits[2] > 6*firstWait {
			t.Errorf("waits %v", waits)
		}
		d := w.delivery(w.account, id)
		var tries []string
		for _, try := range d.Tries {
			tries = append(tries, fmt.Sprintf("%d %s %d", try.Try, try.Outcome, *try.Status))
		}
		want := []string{"1 bad_status 500", "2 bad_status 500", "3 bad_status 500", "4 delivered 200"}
		if diff := cmp.Diff(want, tries); diff != "" || d.State != alert.Delivered || d.FinishedAt == nil {
			t.Errorf("%s, tries (-want +got):\n%s", d.State, diff)
		}
		if err := w.store.Replay(t.Context(), w.account, &rule.ID, id, w.clock.now()); err != nil {
			t.Fatal(err)
		}
		w.step()
		if got := r.all(); len(got) != 5 || got[4] != got[0] || w.delivery(w.account, id).State != alert.Delivered {
			t.Errorf("sent again: %+v", got)
		}
	})
}

// What nobody takes is tried for a day, with waits of at most two hours, and given up.
func TestDeliveryIsGivenUpAfterADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, schematest.Database(t), mail.DefaultConfig())
	r := newReceiver(t, 503)
	rule := w.rule(w.account, r.webhook())
	id, began := w.notify(rule, firing("1")), w.clock.now()
	r.secret = rule.Channels[0].Secret
	last := began
	for range 100 {
		// The library refuses what was signed more than five minutes ago or ahead, and
		// this clock runs ahead of its: the receiver only counts from here on.
		w.notifier.poster.now = time.Now
		w.step()
		d := w.delivery(w.account, id)
		if d.State != alert.Pending {
			break
		}
		if wait := d.NextTryAt.Sub(w.clock.now()); wait > longestWait*5/4 {
			t.Errorf("waits %v", wait)
		}
		w.clock.set(d.NextTryAt)
		last = d.NextTryAt
	}
	d := w.delivery(w.account, id)
	tried := last.Sub(began)
	t.Logf("%d tries in %v", len(d.Tries), tried)
	if d.State != alert.Failed || len(d.Tries) < 15 || len(d.Tries) > 40 || tried < 20*time.Hour || tried > 24*time.Hour {
		t.Errorf("%s after %d tries in %v", d.State, len(d.Tries), tried)
	}
}

// What would go the same way again is not tried again.
func TestFinalOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, schematest.Database(t), mail.DefaultConfig())
	gone := newReceiver(t, http.StatusGone)
	for name, c := range map[outcome]alert.Channel{
		outcomeGone:    gone.webhook(),
		outcomeAddress: {Type: alert.Webhook, Address: "http://10.0.0.1:9/"},
		outcomeNoMail:  {Type: alert.Email, Address: "a@b.example"},
		outcomeRemoved: {Type: alert.Slack, Address: "https://hooks.slack.example/x"},
	} {
		rule := w.rule(w.account, c)
		if name == outcomeGone {
			gone.secret = rule.Channels[0].Secret
		}
		id := w.notify(rule, firing("1"))
		if name == outcomeRemoved {
			if err := w.store.Delete(t.Context(), w.account, rule.ID); err != nil {
				t.Fatal(err)
			}
		}
		w.step()
		if d := w.delivery(w.account, id); d.State != alert.Failed || len(d.Tries) != 1 || d.Tries[0].Outcome != string(name) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// What ended an incident is notified after what began it, however often that is tried.
func TestTheEndIsSentAfterTheBeginning(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db, mail.DefaultConfig())
		r := newReceiver(t, 500, 500, 200)
		rule := w.rule(w.account, r.webhook())
		r.secret = rule.Channels[0].Secret
		incident := schema.NewID(w.clock.now())
		began, ended := firing("1"), firing("2")
		began.IncidentID, ended.IncidentID, ended.Type = &incident, &incident, alert.AlertResolved
		first := w.notify(rule, began)
		w.clock.set(w.clock.now().Add(time.Second))
		second := w.notify(rule, ended)
		for range 8 {
			w.step()
			w.clock.set(w.clock.now().Add(5 * time.Second))
		}
		var ids []string
		for _, m := range r.all() {
			ids = append(ids, m.id)
		}
		f, s := first.Text(alert.DeliveryPrefix), second.Text(alert.DeliveryPrefix)
		if diff := cmp.Diff([]string{f, f, f, s}, ids); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// Notifiers that work side by side send each message once. What one of them had
// claimed when it was killed is sent by another, once the claim has run out.
func TestNotifiersShareTheOutbox(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db, mail.DefaultConfig())
		r := newReceiver(t, 200)
		rule := w.rule(w.account, r.webhook())
		r.secret = rule.Channels[0].Secret
		killed := w.notify(rule, firing("killed"))
		if d, err := w.notifier.outbox.next(t.Context(), []schema.ID{}); err != nil || d == nil || d.ID != killed {
			t.Fatalf("claimed %v, %v", d, err)
		}
		const messages = 40
		for i := range messages {
			w.notify(rule, firing(fmt.Sprint(i)))
		}
		var notifiers sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for range 3 {
			n := w.newNotifier(mail.DefaultConfig(), w.clock.now)
			notifiers.Go(func() { _ = n.Run(ctx) })
		}
		await(t, func() bool { return w.pending() == 1 })
		w.clock.set(w.clock.now().Add(claimFor + time.Second))
		await(t, func() bool { return w.delivery(w.account, killed).State == alert.Delivered })
		stop()
		notifiers.Wait()
		ids := map[string]bool{}
		for _, m := range r.all() {
			ids[m.id] = true
		}
		if n := len(r.all()); len(ids) != messages+1 || n != messages+1 {
			t.Errorf("%d messages received, %d different, want %d", n, len(ids), messages+1)
		}
	})
}

// A receiver that hangs, or answers without end, holds up nobody else's messages, and
// its account's no longer than it hangs.
func TestAHangingReceiverHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, schematest.Database(t), mail.DefaultConfig())
	hang := make(chan struct{})
	stuck := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(stuck.Close)
	release := sync.OnceFunc(func() { close(hang) })
	t.Cleanup(release)
	endless := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		for q.Context().Err() == nil {
			if _, err := rw.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(endless.Close)
	slow := w.rule(w.account, alert.Channel{Type: alert.Webhook, Address: stuck.URL})
	for i := range 3 * maxInHand {
		w.notify(slow, firing(fmt.Sprint(i)))
	}
	w.notifier.poster.client.Timeout = 2 * patience // Nothing below waits so long.
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.notifier.Run(ctx) })
	other := w.newAccount()
	big := w.rule(other, alert.Channel{Type: alert.Webhook, Address: endless.URL})
	id := w.notify(big, firing("big"))
	await(t, func() bool { return w.delivery(other, id).State == alert.Delivered })
	if n := w.pending(); n != 3*maxInHand {
		t.Errorf("%d messages wait for the receiver that hangs, want %d", n, 3*maxInHand)
	}
	release()
	await(t, func() bool { return w.pending() == 0 })
	stop()
	running.Wait()
}
