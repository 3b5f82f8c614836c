package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// jobReply is what GET /v1/jobs/{id} answers.
type jobReply struct {
	State   string
	Attempt int
	Done    int64
	Total   *int64
}

// A report becomes ready once, and is notified once, when the processor that makes it is killed while it reads the figures, or while it
// keeps the documents. How far it is shows meanwhile.
func TestReportSurvivesItsProcessor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// lock holds up the job where it is to be killed.
		lock string
		done int64
	}{
		"killed while it reads": {`LOCK TABLE refused_events IN ACCESS EXCLUSIVE MODE`, 0},
		"killed while it keeps": {`LOCK TABLE report_files IN SHARE MODE`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, receiver := newInstallation(t), newAlertReceiver(t)
			in.startIngest(t)
			in.startQuery(t, allowReceiver...)
			first := in.startProcessor(t, allowReceiver...)
			api := signIn(t, in.credentials)
			var channels struct{ Channels []struct{ Secret string } }
			if status := api.call(t, http.MethodPut, "/v1/account/channels", `{"channels":[{"type":"webhook","url":"`+receiver.URL+`"}]}`, &channels); status != http.StatusOK {
				t.Fatalf("set channels: status %d", status)
			}
			receiver.mu.Lock()
			receiver.secret = channels.Channels[0].Secret
			receiver.mu.Unlock()
			release := hold(t, in.databaseURL, tc.lock)
			var asked struct {
				ID    string
				JobID string `json:"job_id"`
			}
			if status := api.call(t, http.MethodPost, "/v1/reports/generate", `{"from":"2026-01-01","to":"2026-02-01"}`, &asked); status != http.StatusAccepted {
				t.Fatalf("ask for a report: status %d", status)
			}
			job := func() (j jobReply) {
				api.call(t, http.MethodGet, "/v1/jobs/"+asked.JobID, "", &j)
				return j
			}
			awaitFor(t, "the job to be in hand", time.Minute, func() bool {
				j := job()
				return j.State == "running" && j.Done == tc.done && (tc.done == 0 || j.Total != nil)
			})
			first.kill()
			release()
			time.Sleep(time.Second) // The database ends what it did for the one that was killed.
			if began, _ := receiver.first("report.ready"); !began.IsZero() {
				t.Error("the report was announced before it was ready")
			}
			for range 2 {
				in.startProcessor(t, allowReceiver...)
			}
			awaitFor(t, "the message to be taken", 2*time.Minute, func() bool { _, taken := receiver.first("report.ready"); return !taken.IsZero() })
			time.Sleep(5 * time.Second) // Nothing more comes.
			receiver.mu.Lock()
			defer receiver.mu.Unlock()
			if began, taken := len(receiver.began["report.ready"]), len(receiver.taken["report.ready"]); began != 1 || taken != 1 {
				t.Errorf("sent in %d messages, taken %d times, want 1 and 1", began, taken)
			}
			var ready struct {
				Status    string
				SizeBytes int64 `json:"size_bytes"`
			}
			api.call(t, http.MethodGet, "/v1/reports/"+asked.ID, "", &ready)
			if j := job(); ready.Status != "ready" || ready.SizeBytes == 0 || j.State != "done" || j.Attempt != 2 || j.Total == nil || j.Done != *j.Total {
				t.Errorf("report %+v, job %+v", ready, j)
			}
		})
	}
}

// hold takes a lock and keeps it until release is called.
func hold(t *testing.T, url, lock string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	if _, err := conn.Exec(t.Context(), `BEGIN; `+lock); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil {
			t.Error(err)
		}
	}
}
