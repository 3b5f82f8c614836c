package query_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/schematest"
)

// testArgs are of a kind that nobody works on.
type testArgs struct {
	Name string `json:"name"`
	kind string
}

func (a testArgs) Kind() string { return a.kind }

// addJob adds a job of the person's account.
func (p *person) addJob(kind string) schema.ID {
	p.t.Helper()
	id, err := job.NewStore(p.pool).Add(p.t.Context(), job.New{AccountID: p.account, Args: testArgs{Name: "n", kind: kind}, By: &p.user.ID, At: p.now})
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// jobAnswer is the part of a job that tests look at.
type jobAnswer struct {
	ID, Kind, State  string
	Attempt, Done    int
	Total            *int
	Args             map[string]any
	Error, CreatedBy *string
	Result           map[string]any
}

// A job is looked at by those whose account asked for it, and shows where it stands.
func TestJobShowsItsState(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		id := w.alice.addJob("report")
		path := "/v1/jobs/" + id.Text(job.Prefix)
		w.bob.get(path).refused(http.StatusNotFound)
		w.alice.get("/v1/jobs/job_no").refused(http.StatusNotFound)
		w.alice.get(path + "?x=1").refused(http.StatusUnprocessableEntity)

		var queued, running, done jobAnswer
		w.alice.get(path).decode(http.StatusOK, &queued)
		if queued.State != "queued" || queued.Kind != "report" || queued.Args["name"] != "n" || queued.Result != nil {
			t.Errorf("a new job is %+v", queued)
		}
		store := job.NewStore(pool)
		try := schematest.StartJob(t, pool, id)
		if err := store.Progress(t.Context(), try, 3, 7); err != nil {
			t.Fatal(err)
		}
		w.alice.get(path).decode(http.StatusOK, &running)
		if running.State != "running" || running.Attempt != 1 || running.Done != 3 || *running.Total != 7 {
			t.Errorf("a running job is %+v", running)
		}
		if err := store.Finish(t.Context(), try, map[string]int{"found": 5}); err != nil {
			t.Fatal(err)
		}
		w.alice.get(path).decode(http.StatusOK, &done)
		if done.State != "done" || done.Done != 7 || done.Result["found"] == nil {
			t.Errorf("a job that is done is %+v", done)
		}
	})
}

// A list of jobs is complete, newest first, and each account's own.
func TestListJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.bob.addJob("report")
	var want []string
	for _, kind := range []string{"report", "reprice", "report", "report"} {
		w.now = w.now.Add(time.Second)
		want = append([]string{w.alice.addJob(kind).Text(job.Prefix)}, want...)
	}
	got := w.alice.jobIDs("/v1/jobs?limit=2", 2)
	if len(got) != 4 || got[0] != want[0] || got[3] != want[3] {
		t.Errorf("jobs %v, want %v", got, want)
	}
	if got := w.alice.jobIDs("/v1/jobs?kind=reprice&state=queued", 1); len(got) != 1 || got[0] != want[2] {
		t.Errorf("jobs to reprice %v, want %v", got, want[2])
	}
	for _, bad := range []string{"?state=lost", "?cursor=x", "?limit=0", "?kind=%00"} {
		w.alice.get("/v1/jobs" + bad).refused(http.StatusUnprocessableEntity)
	}
}

// jobIDs reads a list of jobs, which has to have this many pages.
func (p *person) jobIDs(path string, pages int) (ids []string) {
	p.t.Helper()
	next := path
	for ; next != ""; pages-- {
		var page struct {
			Data       []jobAnswer
			NextCursor *string `json:"next_cursor"`
		}
		p.get(next).decode(http.StatusOK, &page)
		for _, j := range page.Data {
			ids = append(ids, j.ID)
		}
		next = ""
		if page.NextCursor != nil {
			next = path + "&cursor=" + *page.NextCursor
		}
	}
	if pages != 0 {
		p.t.Errorf("%s: %d pages more than there should be", path, -pages)
	}
	return ids
}
