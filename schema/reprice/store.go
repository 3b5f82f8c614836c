package reprice

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/advisory"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/tariff"
)

// Store asks for repricing and says where it stands.
type Store struct{ db pgdb.DB }

// NewStore returns a Store on db, which the caller owns.
func NewStore(db pgdb.DB) *Store { return &Store{db} }

// New is what is asked for.
type New struct {
	Request
	AccountID schema.ID
	// Book holds the published prices. The account's own come before them, as they are now.
	Book *price.Book
	// By is the user who asks.
	By *schema.ID
	At time.Time
}

const selectUnfinished = `SELECT job_id FROM jobs WHERE account_id = $1 AND kind = $2 AND finished_at IS NULL ORDER BY job_id LIMIT 1`

const insertBook = `INSERT INTO price_books (sha256, catalogue) VALUES ($1, $2) ON CONFLICT DO NOTHING`

const insertReprice = `
INSERT INTO reprices (job_id, account_id, from_time, to_time, model, dry_run, received_before, price_book, created_at, next_time)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $3)`

// Ask adds the job, in the caller's transaction, and pins the prices. It returns a RunningError while another has not ended.
func (s *Store) Ask(ctx context.Context, n New) (schema.ID, error) {
	if err := s.alone(ctx, n.AccountID); err != nil {
		return schema.ID{}, err
	}
	own, err := tariff.NewStore(s.db).OfAccount(ctx, n.AccountID)
	if err != nil {
		return schema.ID{}, err
	}
	sum := sha256.Sum256(n.Book.Catalogue())
	if _, err := s.db.Exec(ctx, insertBook, sum[:], n.Book.Catalogue()); err != nil {
		return schema.ID{}, fmt.Errorf("keep the price catalogue: %w", err)
	}
	id, err := job.NewStore(s.db).Add(ctx, job.New{AccountID: n.AccountID, By: n.By, At: n.At, Args: Args{
		From: n.From, To: n.To, Model: n.Model, DryRun: n.DryRun, PriceBook: hex.EncodeToString(sum[:]), Overrides: len(own),
	}})
	if err != nil {
		return schema.ID{}, err
	}
	_, err = s.db.Exec(ctx, insertReprice, id, n.AccountID, n.From, n.To, n.Model, n.DryRun, n.At.Add(Settle), sum[:], n.At)
	if err != nil {
		return schema.ID{}, fmt.Errorf("ask for repricing: %w", err)
	}
	return id, tariff.NewStore(s.db).Pin(ctx, n.AccountID, id)
}

// alone returns a RunningError unless all jobs of the account have ended; then no other begins before the transaction ends.
func (s *Store) alone(ctx context.Context, accountID schema.ID) error {
	if err := advisory.LockAccount(ctx, s.db, advisory.Reprices, accountID); err != nil {
		return err
	}
	var running schema.ID
	err := s.db.QueryRow(ctx, selectUnfinished, accountID, Args{}.Kind()).Scan(&running)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for running jobs: %w", err)
	}
	return &RunningError{running}
}

// Position is an event's place in the order in which events are looked at.
type Position struct {
	Time      time.Time
	Event     schema.ID
	Partition int32
	Offset    int64
}

// Before returns the position before every event of a time.
func Before(t time.Time) Position { return Position{Time: t, Partition: -1, Offset: -1} }

// State is where a job stands.
type State struct {
	JobID, AccountID schema.ID
	Request
	// ReceivedBefore leaves alone what was received later.
	ReceivedBefore time.Time
	PriceBook      []byte
	// Slice counts the slices that are done; what Next is the last of was looked at.
	Slice int64
	Next  Position
}

const selectState = `
SELECT from_time, to_time, model, dry_run, received_before, price_book, slice, next_time, next_event, next_partition, next_offset
FROM reprices WHERE account_id = $1 AND job_id = $2`

// State returns where a job of an account stands, or job.ErrNotFound.
func (s *Store) State(ctx context.Context, accountID, jobID schema.ID) (State, error) {
	st := State{JobID: jobID, AccountID: accountID}
	err := s.db.QueryRow(ctx, selectState, accountID, jobID).Scan(&st.From, &st.To, &st.Model, &st.DryRun, &st.ReceivedBefore,
		&st.PriceBook, &st.Slice, &st.Next.Time, &st.Next.Event, &st.Next.Partition, &st.Next.Offset)
	if errors.Is(err, pgx.ErrNoRows) {
		return State{}, job.ErrNotFound
	}
	if err != nil {
		return State{}, fmt.Errorf("find where repricing stands: %w", err)
	}
	return st, nil
}

const selectBook = `SELECT catalogue FROM price_books WHERE sha256 = $1`

// Book returns the price book that was pinned.
func (s *Store) Book(ctx context.Context, st *State) (*price.Book, error) {
	var catalogue []byte
	if err := s.db.QueryRow(ctx, selectBook, st.PriceBook).Scan(&catalogue); err != nil {
		return nil, fmt.Errorf("find the price catalogue: %w", err)
	}
	book, err := price.Parse(catalogue)
	if err != nil {
		return nil, err
	}
	own, err := tariff.NewStore(s.db).Pinned(ctx, st.AccountID, st.JobID)
	if err != nil {
		return nil, err
	}
	overrides := make([]price.Override, len(own))
	for i := range own {
		overrides[i] = own[i].Override
	}
	return book.With(overrides), nil
}
