package jobs

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/schematest"
)

// A job is done once, with its arguments, and its progress and result can be read, in every edition.
func TestJobIsDone(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		account := newAccount(t, db.Pool)
		r := newRunner(t, db.Pool)
		var runs atomic.Int32
		proceed := make(chan struct{})
		Handle(r.Runner, Options{}, func(ctx context.Context, j *Task[testArgs]) (any, error) {
			runs.Add(1)
			if err := j.Progress(ctx, 1, 4); err != nil {
				return nil, err
			}
			<-proceed
			err := pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error { return j.Fence(ctx, tx) })
			return map[string]int{"n": j.Args.N}, err
		})
		r.run(t)
		id := add(t, db.Pool, account)
		running := await(t, db.Pool, account, id, "running", func(j *job.Job) bool { return j.Done == 1 })
		if running.State != job.Running || *running.Total != 4 || running.StartedAt == nil {
			t.Errorf("while it runs: %+v", running)
		}
		close(proceed)
		done := await(t, db.Pool, account, id, "done", in(job.Done))
		if string(done.Result) != `{"n": 7}` || done.Done != 4 || done.FinishedAt == nil || runs.Load() != 1 {
			t.Errorf("after %d runs: %+v", runs.Load(), done)
		}
		r.wantMetric(t, `outlay_processor_jobs_total{kind="test",outcome="done"} 1`)
		r.wantMetric(t, `outlay_processor_job_duration_seconds_count{kind="test"} 1`)
	})
}

// An error and a panic lead to another try; what went wrong inside is not shown.
func TestFailedTryIsRepeated(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	account := newAccount(t, db.Pool)
	r := newRunner(t, db.Pool)
	again := make(chan struct{})
	Handle(r.Runner, Options{Wait: func(int) time.Duration { return 300 * time.Millisecond }},
		func(_ context.Context, j *Task[testArgs]) (any, error) {
			switch j.Attempt {
			case 1:
				return nil, errors.New("secret")
			case 2:
				panic("secret")
			}
			<-again
			return nil, nil
		})
	r.run(t)
	id := add(t, db.Pool, account)
	third := await(t, db.Pool, account, id, "tried again", func(j *job.Job) bool { return j.Attempt == 3 })
	if third.Error == nil || *third.Error != internalError {
		t.Errorf("people see %v", third.Error)
	}
	close(again)
	if done := await(t, db.Pool, account, id, "done", in(job.Done)); done.Error != nil || done.Result != nil {
		t.Errorf("after success: %+v", done)
	}
	r.wantMetric(t, `outlay_processor_jobs_total{kind="test",outcome="retry"} 2`)
}

// A refusal ends a job at once, and its text is shown.
func TestRefusalIsFinal(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	account := newAccount(t, db.Pool)
	r := newRunner(t, db.Pool)
	Handle(r.Runner, Options{}, func(context.Context, *Task[testArgs]) (any, error) {
		return nil, Refuse("there are %d agents too many", 3)
	})
	r.run(t)
	id := add(t, db.Pool, account)
	failed := await(t, db.Pool, account, id, "failed", in(job.Failed))
	if *failed.Error != "there are 3 agents too many" || failed.Attempt != 1 {
		t.Errorf("%+v", failed)
	}
	r.wantMetric(t, `outlay_processor_jobs_total{kind="test",outcome="failed"} 1`)
}

// What a runner that was killed had in hand is taken up by another within seconds, and the first, should it wake up, writes
// nothing any more.
func TestJobOfAKilledRunnerIsTakenOver(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		account := newAccount(t, db.Pool)
		id := add(t, db.Pool, account)
		// The first runner claims the job and is never heard of again: it has no other heartbeat, and does not end.
		taken := time.Now()
		zombie := schematest.StartJob(t, db.Pool, id)
		r := newRunner(t, db.Pool)
		r.deadAfter = soonDead
		Handle(r.Runner, Options{}, func(_ context.Context, j *Task[testArgs]) (any, error) { return j.Attempt, nil })
		r.run(t)
		done := await(t, db.Pool, account, id, "done", in(job.Done))
		if done.Attempt != 2 || string(done.Result) != "2" {
			t.Errorf("%+v", done)
		}
		t.Logf("taken over after %v with a patience of %v", time.Since(taken).Round(10*time.Millisecond), r.deadAfter)
		if err := job.NewStore(db.Pool).Finish(t.Context(), zombie, "wrong"); !errors.Is(err, job.ErrLost) {
			t.Errorf("the killed try finished the job: %v", err)
		}
		r.wantMetric(t, `outlay_processor_jobs_rescued_total 1`)
	})
}

// A job that the database believes this runner to run, because how its try ended could not be recorded, is tried again; one that it
// does run is left alone however long it takes.
func TestJobWhoseEndWasNotRecordedIsTriedAgain(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	account := newAccount(t, db.Pool)
	id := add(t, db.Pool, account)
	r := newRunner(t, db.Pool)
	r.deadAfter = soonDead
	schematest.StartJob(t, db.Pool, id)
	if _, err := db.Pool.Exec(t.Context(), `UPDATE jobs SET runner_id = $1`, r.id); err != nil {
		t.Fatal(err)
	}
	Handle(r.Runner, Options{}, func(context.Context, *Task[testArgs]) (any, error) {
		time.Sleep(2 * r.deadAfter)
		return nil, nil
	})
	r.run(t)
	if done := await(t, db.Pool, account, id, "done", in(job.Done)); done.Attempt != 2 {
		t.Errorf("%+v", done)
	}
	r.wantMetric(t, `outlay_processor_jobs_rescued_total 1`)
}

// A job whose last try was killed fails.
func TestJobFailsWhenItsLastTryIsKilled(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	account := newAccount(t, db.Pool)
	id := add(t, db.Pool, account)
	schematest.StartJob(t, db.Pool, id)
	if _, err := db.Pool.Exec(t.Context(), `UPDATE jobs SET failures = max_tries - 1`); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, db.Pool)
	r.deadAfter = soonDead
	r.run(t)
	if failed := await(t, db.Pool, account, id, "failed", in(job.Failed)); failed.Error == nil || *failed.Error != internalError {
		t.Errorf("%+v", failed)
	}
}

// A runner that is stopped puts what it cannot finish back, and the stop does not count as a try.
func TestStopPutsJobsBack(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	account := newAccount(t, db.Pool)
	first := newRunner(t, db.Pool)
	Handle(first.Runner, Options{}, func(ctx context.Context, _ *Task[testArgs]) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	first.run(t)
	id := add(t, db.Pool, account)
	await(t, db.Pool, account, id, "running", in(job.Running))
	first.stop()
	if j := await(t, db.Pool, account, id, "queued", in(job.Queued)); j.Error != nil {
		t.Errorf("after the stop: %+v", j)
	}
	second := newRunner(t, db.Pool)
	Handle(second.Runner, Options{}, func(_ context.Context, j *Task[testArgs]) (any, error) { return j.Failures, nil })
	second.run(t)
	if j := await(t, db.Pool, account, id, "done", in(job.Done)); string(j.Result) != "0" {
		t.Errorf("%s failed tries, want 0: the stop is none", j.Result)
	}
}

// What is due at intervals is done by every runner, one time after the other, whether it succeeds or not.
func TestEveryInterval(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	r := newRunner(t, db.Pool)
	var at, most atomic.Int32
	runs := make(chan struct{}, 100)
	r.Every(10*time.Millisecond, "tick", func(context.Context) error {
		most.Store(max(most.Load(), at.Add(1)))
		defer at.Add(-1)
		runs <- struct{}{}
		if len(runs)%2 == 1 {
			panic("it failed")
		}
		return errors.New("it failed")
	})
	r.run(t)
	for range 5 {
		select {
		case <-runs:
		case <-time.After(patience):
			t.Fatal("nothing is done")
		}
	}
	r.stop()
	if most.Load() != 1 {
		t.Errorf("%d at the same time", most.Load())
	}
	r.wantMetric(t, `outlay_processor_jobs_total{kind="tick",outcome="done"} 0`)
}

// What the tier gives itself is done when the transaction has committed, and as often as it may be tried.
func TestInternalJobIsDone(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	account := newAccount(t, db.Pool)
	r := newRunner(t, db.Pool)
	done := make(chan int, 10)
	Handle(r.Runner, Options{}, func(_ context.Context, task *Task[testArgs]) (any, error) {
		if task.Last {
			done <- task.Args.N
			return nil, nil
		}
		return nil, errors.New("not yet")
	})
	insert := func(n, tries int, result error) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
			if err := job.NewStore(tx).AddInternal(t.Context(), job.New{AccountID: account, Args: testArgs{n}, At: time.Now()}, tries); err != nil {
				return err
			}
			return result
		})
		if !errors.Is(err, result) {
			t.Fatal(err)
		}
	}
	insert(1, 1, errors.New("rolled back"))
	insert(2, 2, nil)
	r.run(t)
	select {
	case n := <-done:
		if n != 2 {
			t.Errorf("job %d was done", n)
		}
	case <-time.After(patience):
		t.Error("nothing was done")
	}
	r.wantMetric(t, `outlay_processor_jobs_total{kind="test",outcome="retry"} 1`)
}

// Two runners do every job once, and together no more of them at a time than they have workers.
func TestRunnersShareJobs(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	account := newAccount(t, db.Pool)
	const jobs = 40
	var at, most, runs atomic.Int32
	for range jobs {
		add(t, db.Pool, account)
	}
	for range 2 {
		r := newRunner(t, db.Pool)
		Handle(r.Runner, Options{Workers: 3}, func(context.Context, *Task[testArgs]) (any, error) {
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			runs.Add(1)
			time.Sleep(20 * time.Millisecond)
			return nil, nil
		})
		r.run(t)
	}
	eventuallyNone := `SELECT count(*) FROM jobs WHERE finished_at IS NULL`
	for deadline, left := time.Now().Add(patience), 1; left > 0; time.Sleep(20 * time.Millisecond) {
		if err := db.Pool.QueryRow(t.Context(), eventuallyNone).Scan(&left); err != nil || time.Now().After(deadline) {
			t.Fatalf("%d jobs are left: %v", left, err)
		}
	}
	if runs.Load() != jobs || most.Load() > 6 {
		t.Errorf("%d runs of %d jobs, %d at the same time, want at most 6", runs.Load(), jobs, most.Load())
	}
}
