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

const countEntries = `SELECT count(*) FROM river.river_job WHERE kind = 'test' AND queue = 'test' AND state = 'available'`

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
		if n := count(t, db, countEntries); n != 1 {
			t.Errorf("%d entries in the queue, want 1", n)
		}
		wantRefused(t, "a job of another account", add(strange))
		for _, sql := range []string{
			`INSERT INTO river.river_job (kind, args, max_attempts) VALUES ('test', '{}', 1)`,
			`SELECT * FROM river.river_job`,
			`DELETE FROM jobs`,
			`UPDATE jobs SET state = 'done'`,
			`INSERT INTO jobs (job_id, account_id, kind, state) SELECT gen_random_uuid(), current_account(), 'test', 'done'`,
			`SELECT * FROM job_runners`,
		} {
			wantRefused(t, sql, asQuery(t, db, own, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, sql)
				return err
			}))
		}
		if n := count(t, db, countEntries); n != 1 {
			t.Errorf("%d entries in the queue after what was refused, want 1", n)
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
	if n := count(t, db, countEntries); n != 0 {
		t.Errorf("%d entries in the queue, want none", n)
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
	first, err := store.Start(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	second, err := store.Start(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"progress": store.Progress(t.Context(), &first, 1, 2),
		"fence":    store.Fence(t.Context(), &first),
		"finish":   store.Finish(t.Context(), &first, nil),
		"requeue":  store.Requeue(t.Context(), &first, "why"),
		"fail":     store.Fail(t.Context(), &first, "why"),
	} {
		if !errors.Is(err, job.ErrLost) {
			t.Errorf("%s of a try that was given up: %v, want ErrLost", what, err)
		}
	}
	if err := store.Fence(t.Context(), &second); err != nil {
		t.Error(err)
	}
	if err := store.Finish(t.Context(), &second, nil); err != nil {
		t.Error(err)
	}
	if _, err := store.Start(t.Context(), id); !errors.Is(err, job.ErrLost) {
		t.Errorf("a try at a job that is done: %v, want ErrLost", err)
	}
}
