package job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// Store reads and writes jobs.
type Store struct{ db pgdb.DB }

// NewStore returns a Store on db, which the caller owns.
func NewStore(db pgdb.DB) *Store { return &Store{db} }

// New is a job to be done.
type New struct {
	AccountID schema.ID
	Args      Args
	// By is the user who asks for it; nil for a schedule.
	By *schema.ID
	At time.Time
}

const insertJob = `
INSERT INTO jobs (job_id, account_id, kind, args, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6)`

// Add adds a job, which is begun when the transaction has committed. It is tried up to 10 times.
func (s *Store) Add(ctx context.Context, n New) (schema.ID, error) {
	return s.add(ctx, insertJob, n)
}

const insertInternalJob = `
INSERT INTO jobs (job_id, account_id, kind, args, created_by, created_at, internal, max_tries) VALUES ($1, $2, $3, $4, $5, $6, true, $7)`

// AddInternal adds a job that the processor gives itself: accounts do not see it. It is tried up to maxTries times.
func (s *Store) AddInternal(ctx context.Context, n New, maxTries int) error {
	_, err := s.add(ctx, insertInternalJob, n, maxTries)
	return err
}

func (s *Store) add(ctx context.Context, statement string, n New, more ...any) (schema.ID, error) {
	args, err := json.Marshal(n.Args)
	if err != nil {
		return schema.ID{}, fmt.Errorf("encode a job of kind %s: %w", n.Args.Kind(), err)
	}
	id := schema.NewID(n.At)
	if _, err := s.db.Exec(ctx, statement, append([]any{id, n.AccountID, n.Args.Kind(), args, n.By, n.At}, more...)...); err != nil {
		return schema.ID{}, fmt.Errorf("add a job of kind %s: %w", n.Args.Kind(), err)
	}
	return id, nil
}

const selectJob = `
SELECT job_id AS id, account_id, kind, args, state, attempt, done, total, waiting_for, error, result, created_by, created_at, started_at, finished_at
FROM jobs
WHERE account_id = $1 AND NOT internal`

// Get returns a job of an account, or ErrNotFound.
func (s *Store) Get(ctx context.Context, accountID, id schema.ID) (Job, error) {
	return pgdb.Row[Job](ctx, s.db, "find job", ErrNotFound, selectJob+` AND job_id = $2`, accountID, id)
}

// Filter says which jobs of an account are wanted.
type Filter struct {
	// Kind and State filter nothing when nil.
	Kind, State *string
	// Before is the job that the page follows; nil for the first page.
	Before *schema.ID
	Limit  int
}

const selectPage = selectJob + `
	AND ($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR state = $3) AND ($4::uuid IS NULL OR job_id < $4)
ORDER BY job_id DESC LIMIT $5`

// Page returns jobs of an account, newest first.
func (s *Store) Page(ctx context.Context, accountID schema.ID, f Filter) ([]Job, error) {
	return pgdb.Rows[Job](ctx, s.db, "list jobs", selectPage, accountID, f.Kind, f.State, f.Before, f.Limit)
}
