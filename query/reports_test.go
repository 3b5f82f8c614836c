package query_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/report"
	"github.com/outlayhq/outlay/schema/schematest"
)

// addReport gives the person's account a report that is ready, was made for a schedule, and is on its way to an address.
func (p *person) addReport() schema.ID {
	p.t.Helper()
	store := report.NewStore(p.pool)
	x := report.Schedule{
		ID: schema.NewID(p.now), AccountID: p.account, Title: "t", Frequency: report.Weekly, Timezone: "UTC", Agents: []string{},
		GroupBy: report.ByAgent, Recipients: []string{"a@example.com"}, NextAt: p.now, CreatedAt: p.now,
	}
	if err := store.AddSchedule(p.t.Context(), &x); err != nil {
		p.t.Fatal(err)
	}
	if err := store.Make(p.t.Context(), &x, p.now); err != nil {
		p.t.Fatal(err)
	}
	made, err := store.Page(p.t.Context(), p.account, nil, 1)
	if err != nil {
		p.t.Fatal(err)
	}
	p.keep(made[0].ID)
	return made[0].ID
}

// keep makes a report ready, as the processor would.
func (p *person) keep(id schema.ID) {
	p.t.Helper()
	store := report.NewStore(p.pool)
	r, err := store.Get(p.t.Context(), p.account, id)
	if err != nil {
		p.t.Fatal(err)
	}
	files := map[report.Format][]byte{report.PDF: []byte("%PDF-1.3 of " + p.user.Email), report.CSV: []byte("csv")}
	if err := store.Keep(p.t.Context(), &r, files); err != nil {
		p.t.Fatal(err)
	}
}

type reportAnswer struct {
	ID, Status, Title, Timezone string
	From, To                    time.Time
	Agents                      []string
	GroupBy                     string `json:"group_by"`
	SizeBytes                   *int   `json:"size_bytes"`
	JobID                       string `json:"job_id"`
	Deliveries                  []struct{ To, State string }
}

const november = `{"title":" November ","from":"2026-11-01","to":"2026-12-01","timezone":"Europe/Berlin","agents":["b","a","b"],"group_by":"model"}`

// A report is asked for, waits as a job, and is downloaded when it is ready; by nobody else.
func TestReportIsAskedForAndDownloaded(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		var asked, ready reportAnswer
		answer := w.alice.post("/v1/reports/generate", november)
		answer.decode(http.StatusAccepted, &asked)
		if got := answer.header.Get("Location"); got != "/v1/reports/"+asked.ID {
			t.Errorf("Location %q", got)
		}
		if asked.Status != "queued" || asked.Title != "November" || strings.Join(asked.Agents, " ") != "a b" || asked.GroupBy != "model" || asked.SizeBytes != nil {
			t.Errorf("asked for %+v", asked)
		}
		if from := time.Date(2026, 10, 31, 23, 0, 0, 0, time.UTC); !asked.From.Equal(from) || !asked.To.Equal(from.AddDate(0, 0, 30)) {
			t.Errorf("from %v to %v, want the month of Berlin", asked.From, asked.To)
		}
		var queued jobAnswer
		w.alice.get("/v1/jobs/"+asked.JobID).decode(http.StatusOK, &queued)
		if queued.Kind != "report" || queued.Args["report_id"] != asked.ID {
			t.Errorf("its job is %+v", queued)
		}
		path := "/v1/reports/" + asked.ID
		w.alice.get(path + "/download").refused(http.StatusConflict)
		for _, p := range []string{path, path + "/download", "/v1/reports/rpt_no", "/v1/reports/rpt_no/download"} {
			w.bob.get(p).refused(http.StatusNotFound)
		}
		id, err := schema.ParseID(report.Prefix, asked.ID)
		if err != nil {
			t.Fatal(err)
		}
		w.alice.keep(id)
		w.alice.get(path).decode(http.StatusOK, &ready)
		if ready.Status != "ready" || ready.SizeBytes == nil || *ready.SizeBytes < 10 {
			t.Errorf("ready: %+v", ready)
		}
		w.bob.get(path + "/download").refused(http.StatusNotFound)
		for format, want := range map[string]struct{ kind, name, body string }{
			"":            {"application/pdf", "outlay-2026-11-01-to-2026-11-30.pdf", "%PDF-1.3 of alice@example.com"},
			"?format=pdf": {"application/pdf", "outlay-2026-11-01-to-2026-11-30.pdf", "%PDF-1.3 of alice@example.com"},
			"?format=csv": {"text/csv", "outlay-2026-11-01-to-2026-11-30.csv", "csv"},
		} {
			file := w.alice.get(path + "/download" + format)
			file.want(http.StatusOK)
			if kind, _, _ := strings.Cut(file.header.Get("Content-Type"), ";"); kind != want.kind || string(file.body) != want.body ||
				file.header.Get("Content-Disposition") != `attachment; filename="`+want.name+`"` {
				t.Errorf("download %s = %v %q", format, file.header, file.body)
			}
		}
		w.alice.get(path + "/download?format=xls").refused(http.StatusUnprocessableEntity)
	})
}

// A job that failed makes the report fail, and says why.
func TestFailedReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var asked struct {
		ID, Status string
		JobID      string `json:"job_id"`
		Error      *string
	}
	w.alice.post("/v1/reports/generate", november).decode(http.StatusAccepted, &asked)
	id, err := schema.ParseID(job.Prefix, asked.JobID)
	if err != nil {
		t.Fatal(err)
	}
	store := job.NewStore(w.pool)
	try := schematest.StartJob(t, w.pool, id)
	if err := store.Fail(t.Context(), try, "it rained"); err != nil {
		t.Fatal(err)
	}
	w.alice.get("/v1/reports/"+asked.ID).decode(http.StatusOK, &asked)
	if asked.Status != "failed" || asked.Error == nil || *asked.Error != "it rained" {
		t.Errorf("%+v", asked)
	}
	w.alice.get("/v1/reports/" + asked.ID + "/download").refused(http.StatusConflict)
}

// An account has at most five reports made at a time, and the same one once; others are not touched.
func TestReportsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	body := func(i int) string { return fmt.Sprintf(`{"from":"2026-11-%02d","to":"2026-12-01"}`, i+1) }
	var first, again reportAnswer
	w.alice.post("/v1/reports/generate", body(0)).decode(http.StatusAccepted, &first)
	w.alice.post("/v1/reports/generate", body(0)).decode(http.StatusAccepted, &again)
	if first.ID != again.ID {
		t.Errorf("the same report was asked for twice and is made as %s and %s", first.ID, again.ID)
	}
	for i := 1; i < report.MaxUnfinished; i++ {
		w.alice.post("/v1/reports/generate", body(i)).want(http.StatusAccepted)
	}
	answer := w.alice.post("/v1/reports/generate", body(9))
	answer.refused(http.StatusTooManyRequests)
	if answer.header.Get("Retry-After") != "10" {
		t.Errorf("Retry-After %q", answer.header.Get("Retry-After"))
	}
	w.bob.post("/v1/reports/generate", body(9)).want(http.StatusAccepted)
	var page struct{ Data []reportAnswer }
	w.alice.get("/v1/reports").decode(http.StatusOK, &page)
	if len(page.Data) != report.MaxUnfinished || page.Data[len(page.Data)-1].ID != first.ID {
		t.Errorf("%d reports: %+v", len(page.Data), page.Data)
	}
	w.exec(`UPDATE jobs SET state = 'failed', error = 'x', finished_at = now()`)
	w.alice.post("/v1/reports/generate", body(9)).want(http.StatusAccepted)
}

// Asking for reports takes an admin; looking at them does not. Bad requests list their faults.
func TestReportRequestsAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	viewer := w.tokenFor(w.alice.colleague("viewer@example.com", account.Viewer))
	w.send(viewer, http.MethodPost, "/v1/reports/generate", november).refused(http.StatusForbidden)
	w.send(viewer, http.MethodPost, "/v1/reports/schedules", weekly).refused(http.StatusForbidden)
	w.send(viewer, http.MethodGet, "/v1/reports", "").want(http.StatusOK)
	for body, field := range map[string]string{
		`{}`:                    "from",
		`{"from":"2026-11-01"}`: "to",
		`{"from":"2026-11-02","to":"2026-11-01"}`:                                                     "from",
		`{"from":"2026-11-02","to":"2026-11-02"}`:                                                     "from",
		`{"from":"2024-11-01","to":"2026-11-01"}`:                                                     "from",
		`{"from":"yesterday","to":"2026-11-01"}`:                                                      "from",
		`{"from":"1999-01-01","to":"1999-02-01"}`:                                                     "from",
		`{"from":"2026-11-01","to":"2026-11-02","timezone":"Mars/Olympus"}`:                           "timezone",
		`{"from":"2026-11-01","to":"2026-11-02","timezone":"Local"}`:                                  "timezone",
		`{"from":"2026-11-01","to":"2026-11-02","group_by":"colour"}`:                                 "group_by",
		`{"from":"2026-11-01","to":"2026-11-02","agents":[" "]}`:                                      "agents.0",
		`{"from":"2026-11-01","to":"2026-11-02","title":"` + strings.Repeat("x", 201) + `"}`:          "title",
		`{"from":"2026-11-01","to":"2026-11-02","title":"a\u0000b"}`:                                  "title",
		`{"from":"2026-11-01","to":"2026-11-02","format":"pdf"}`:                                      "format",
		`{"from":"2026-11-01","to":"2026-11-02","agents":[` + strings.Repeat(`"a",`, 700) + `"b",1]}`: "agents[701]",
	} {
		refusal := w.alice.post("/v1/reports/generate", body).refused(http.StatusUnprocessableEntity)
		if len(refusal.Errors) == 0 || refusal.Errors[0].Field != field {
			t.Errorf("%.80s: faults %v, want one of %s", body, refusal.Errors, field)
		}
	}
	for body, field := range map[string]string{
		`{"recipients":["a@example.com"]}`:                                              "frequency",
		`{"frequency":"hourly","recipients":["a@example.com"]}`:                         "frequency",
		`{"frequency":"weekly"}`:                                                        "recipients",
		`{"frequency":"weekly","recipients":["Ann <a@example.com>"]}`:                   "recipients.0",
		`{"frequency":"weekly","recipients":["a@example.com\r\nBcc: all@example.com"]}`: "recipients.0",
		`{"frequency":"weekly","recipients":["a@example.com"],"timezone":"x"}`:          "timezone",
	} {
		refusal := w.alice.post("/v1/reports/schedules", body).refused(http.StatusUnprocessableEntity)
		if len(refusal.Errors) == 0 || refusal.Errors[0].Field != field {
			t.Errorf("%.80s: faults %v, want one of %s", body, refusal.Errors, field)
		}
	}
}

const weekly = `{"title":"Weekly","frequency":"weekly","timezone":"Asia/Kolkata","recipients":["b@example.com","a@example.com"]}`

// Schedules are made, listed and ended, each account's own, and say when the next report comes.
func TestSchedules(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		var made struct {
			ID         string
			NextAt     time.Time `json:"next_at"`
			Recipients []string
		}
		w.alice.post("/v1/reports/schedules", weekly).decode(http.StatusCreated, &made)
		kolkata, err := time.LoadLocation("Asia/Kolkata")
		if err != nil {
			t.Fatal(err)
		}
		if next := made.NextAt.In(kolkata); next.Weekday() != time.Monday || next.Format("15:04") != "06:00" || !next.After(w.now) || next.After(w.now.AddDate(0, 0, 8)) {
			t.Errorf("the next report comes at %v", next)
		}
		var page struct {
			Data []struct{ ID, Frequency string }
		}
		w.alice.get("/v1/reports/schedules").decode(http.StatusOK, &page)
		if len(page.Data) != 1 || page.Data[0].ID != made.ID || page.Data[0].Frequency != "weekly" {
			t.Errorf("schedules %+v", page)
		}
		w.bob.get("/v1/reports/schedules").decode(http.StatusOK, &page)
		if len(page.Data) != 0 {
			t.Errorf("bob sees %+v", page)
		}
		w.send(w.bob.token, http.MethodDelete, "/v1/reports/schedules/"+made.ID, "").refused(http.StatusNotFound)
		w.send(w.alice.token, http.MethodDelete, "/v1/reports/schedules/"+made.ID, "").want(http.StatusNoContent)
		w.send(w.alice.token, http.MethodDelete, "/v1/reports/schedules/"+made.ID, "").refused(http.StatusNotFound)
		acts := w.alice.get("/v1/audit")
		for _, act := range []string{"report_schedule.create", "report_schedule.remove"} {
			if !bytes.Contains(acts.body, []byte(act)) {
				t.Errorf("the audit log lacks %s", act)
			}
		}
	})
}

// An account has as many schedules as it may, and not more.
func TestSchedulesAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for range report.MaxSchedules {
		w.alice.post("/v1/reports/schedules", weekly).want(http.StatusCreated)
	}
	w.alice.post("/v1/reports/schedules", weekly).refused(http.StatusConflict)
}

// Whom a scheduled report was sent to is shown with it.
func TestReportShowsItsDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	id := w.alice.addReport()
	d := report.Delivery{ReportID: id, Address: "a@example.com"}
	if err := report.NewStore(w.pool).Sent(t.Context(), w.alice.account, &d); err != nil {
		t.Fatal(err)
	}
	var r reportAnswer
	w.alice.get("/v1/reports/"+id.Text(report.Prefix)).decode(http.StatusOK, &r)
	if len(r.Deliveries) != 1 || r.Deliveries[0].To != "a@example.com" || r.Deliveries[0].State != "sent" {
		t.Errorf("deliveries %+v", r.Deliveries)
	}
}
