package job_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/schematest"
)

type args struct {
	N int `json:"n"`
}

func (args) Kind() string { return "test" }

func account(t *testing.T, db *schematest.DB) schema.ID {
	t.Helper()
	id := schema.NewID(time.Now())
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO accounts (id, name) VALUES ($1, 'test')`, id); err != nil {
		t.Fatal(err)
	}
	return id
}

// asQuery runs f as the query tier does, in the role that sees one account.
func asQuery(t *testing.T, db *schematest.DB, accountID schema.ID, f func(context.Context, pgx.Tx) error) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT set_config('outlay.account_id', $1::uuid::text, true)`, accountID); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), `SET LOCAL ROLE outlay_query`); err != nil {
			return err
		}
		return f(t.Context(), tx)
	})
}

func count(t *testing.T, db *schematest.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const countQueued = `SELECT count(*) FROM jobs WHERE kind = 'test' AND state = 'queued' AND NOT internal AND max_tries = 10`

// The role of the query tier adds jobs of its account, and has no other way into the queue.
func TestQueryTierHasANarrowDoor(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		own, strange := account(t, db), account(t, db)
		add := func(of schema.ID) error {
			return asQuery(t, db, own, func(ctx context.Context, tx pgx.Tx) error {
				_, err := job.NewStore(tx).Add(ctx, job.New{AccountID: of, Args: args{1}, At: time.Now()})
				return err
			})
		}
		if err := add(own); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db, countQueued); n != 1 {
			t.Errorf("%d queued jobs, want 1", n)
		}
		wantRefused(t, "a job of another account", add(strange))
		for _, sql := range []string{
			`DELETE FROM jobs`,
			`UPDATE jobs SET state = 'done'`,
			`INSERT INTO jobs (job_id, account_id, kind, state) SELECT gen_random_uuid(), current_account(), 'test', 'done'`,
			`INSERT INTO jobs (job_id, account_id, kind, max_tries) SELECT gen_random_uuid(), current_account(), 'test', 1000`,
			`INSERT INTO jobs (job_id, account_id, kind, internal) SELECT gen_random_uuid(), current_account(), 'test', true`,
			`SELECT * FROM job_runners`,
		} {
			wantRefused(t, sql, asQuery(t, db, own, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, sql)
				return err
			}))
		}
		if n := count(t, db, countQueued); n != 1 {
			t.Errorf("%d queued jobs after what was refused, want 1", n)
		}
	})
}

const insufficientPrivilege = "42501"

func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != insufficientPrivilege {
		t.Errorf("%s: %v, want it refused", what, err)
	}
}

// A job that is not committed is not in the queue.
func TestAddIsPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	of, stop := account(t, db), errors.New("stop")
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := job.NewStore(tx).Add(t.Context(), job.New{AccountID: of, Args: args{1}, At: time.Now()}); err != nil {
			return err
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if n := count(t, db, countQueued); n != 0 {
		t.Errorf("%d queued jobs, want none", n)
	}
}

// A try that was given up writes nothing any more, whatever it tries to write.
func TestTryThatWasGivenUpWritesNothing(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	store := job.NewStore(db.Pool)
	id, err := store.Add(t.Context(), job.New{AccountID: account(t, db), Args: args{1}, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	first := schematest.StartJob(t, db.Pool, id)
	second := schematest.StartJob(t, db.Pool, id)
	for what, err := range map[string]error{
		"progress": store.Progress(t.Context(), first, 1, 2),
		"waiting":  store.Waiting(t.Context(), first, "what"),
		"fence":    store.Fence(t.Context(), first),
		"finish":   store.Finish(t.Context(), first, nil),
		"put back": store.PutBack(t.Context(), first),
		"retry":    store.Retry(t.Context(), first, "why", 0),
		"fail":     store.Fail(t.Context(), first, "why"),
	} {
		if !errors.Is(err, job.ErrLost) {
			t.Errorf("%s of a try that was given up: %v, want ErrLost", what, err)
		}
	}
	if err := store.Fence(t.Context(), second); err != nil {
		t.Error(err)
	}
	if err := store.Finish(t.Context(), second, nil); err != nil {
		t.Error(err)
	}
	if again := claim(t, db, "a", 10); len(again) != 0 {
		t.Errorf("claimed a job that is done: %+v", again)
	}
}

// beat writes the heartbeat of a runner.
func beat(t *testing.T, db *schematest.DB, runner string, age time.Duration) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO job_runners VALUES ($1, now() - $2::interval)`, runner, age); err != nil {
		t.Fatal(err)
	}
}

func claim(t *testing.T, db *schematest.DB, runner string, free int) []job.Try {
	t.Helper()
	tries, err := job.NewStore(db.Pool).Claim(t.Context(), runner, time.Minute, []string{"other", "test"}, []int{5, free})
	if err != nil {
		t.Fatal(err)
	}
	return tries
}

// Runners claim different jobs, no more than they have room for, those that are due and in their order; one without a heartbeat
// claims nothing. Internal jobs are claimed, and not shown.
func TestClaim(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		store, of := job.NewStore(db.Pool), account(t, db)
		var ids []schema.ID
		for range 4 {
			id, err := store.Add(t.Context(), job.New{AccountID: of, Args: args{1}, At: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		if err := store.AddInternal(t.Context(), job.New{AccountID: of, Args: args{2}, At: time.Now()}, 1); err != nil {
			t.Fatal(err)
		}
		beat(t, db, "a", 0)
		beat(t, db, "b", 0)
		beat(t, db, "dead", time.Hour)
		if got := claim(t, db, "dead", 10); len(got) != 0 {
			t.Errorf("a runner without a heartbeat claimed %+v", got)
		}
		first := claim(t, db, "a", 2)
		if len(first) != 2 || first[0].JobID != ids[0] && first[1].JobID != ids[0] || first[0].Attempt != 1 || first[0].Last {
			t.Fatalf("the first claim: %+v", first)
		}
		if err := store.Retry(t.Context(), &first[0], "why", time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := store.PutBack(t.Context(), &first[1]); err != nil {
			t.Fatal(err)
		}
		rest := claim(t, db, "b", 10)
		last, again := 0, 0
		for _, x := range rest {
			if x.Last {
				last++
			}
			if x.JobID == first[1].JobID && x.Attempt == 2 && x.Failures == 0 {
				again++
			}
		}
		if len(rest) != 4 || last != 1 || again != 1 {
			t.Errorf("the second claim: %+v, want what was put back, two jobs more and an internal one, which has one try", rest)
		}
		if shown, err := store.Page(t.Context(), of, job.Filter{Limit: 10}); err != nil || len(shown) != 4 {
			t.Errorf("%d jobs are shown, want 4: %v", len(shown), err)
		}
	})
}
