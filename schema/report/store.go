package report

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/advisory"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// Store reads and writes reports and schedules.
type Store struct{ db pgdb.DB }

// NewStore returns a Store on db, which the caller owns.
func NewStore(db pgdb.DB) *Store { return &Store{db} }

// New is a report to be made.
type New struct {
	Request
	AccountID schema.ID
	// ScheduleID is the schedule it is for, and By the user who asks; one of them is nil.
	ScheduleID, By *schema.ID
	At             time.Time
}

const countUnfinished = `SELECT count(*) FROM jobs WHERE account_id = $1 AND kind = $2 AND finished_at IS NULL`

// Ask adds a report that a user asks for, in the caller's transaction. When the same one is asked for and not begun, that one is
// returned; one that is begun may lack what was accepted since. It returns ErrTooMany when MaxUnfinished are unfinished.
func (s *Store) Ask(ctx context.Context, n New) (Report, error) {
	// Those who ask at the same time wait for each other, or together they would pass the limit.
	if err := advisory.LockAccount(ctx, s.db, advisory.Reports, n.AccountID); err != nil {
		return Report{}, err
	}
	same, err := s.queuedLike(ctx, &n)
	if err == nil || !errors.Is(err, ErrNotFound) {
		return same, err
	}
	var unfinished int
	if err := s.db.QueryRow(ctx, countUnfinished, n.AccountID, Args{}.Kind()).Scan(&unfinished); err != nil {
		return Report{}, fmt.Errorf("count unfinished reports: %w", err)
	}
	if unfinished >= MaxUnfinished {
		return Report{}, ErrTooMany
	}
	id, err := s.Add(ctx, n)
	if err != nil {
		return Report{}, err
	}
	return s.Get(ctx, n.AccountID, id)
}

const insertReport = `
INSERT INTO reports (report_id, account_id, job_id, title, from_time, to_time, timezone, agents, group_by, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

const setSchedule = `UPDATE reports SET schedule_id = $2 WHERE report_id = $1`

// Add adds a report and the job that makes it.
func (s *Store) Add(ctx context.Context, n New) (schema.ID, error) {
	id := schema.NewID(n.At)
	jobID, err := job.NewStore(s.db).Add(ctx, job.New{AccountID: n.AccountID, Args: Args{id.Text(Prefix)}, By: n.By, At: n.At})
	if err != nil {
		return schema.ID{}, err
	}
	_, err = s.db.Exec(ctx, insertReport, id, n.AccountID, jobID, n.Title, n.From, n.To, n.Timezone, n.Agents, n.GroupBy, n.By, n.At)
	if err == nil && n.ScheduleID != nil {
		_, err = s.db.Exec(ctx, setSchedule, id, n.ScheduleID)
	}
	if err != nil {
		return schema.ID{}, fmt.Errorf("add report: %w", err)
	}
	return id, nil
}

// A job that is gone, or has ended without a document, has failed.
const selectReport = `
SELECT r.report_id AS id, r.account_id, r.job_id, r.schedule_id, r.title, r.from_time AS "from", r.to_time AS "to", r.timezone,
	r.agents, r.group_by, r.created_by, r.created_at, r.ready_at, r.complete, r.complete_until, j.waiting_for,
	CASE WHEN r.ready_at IS NOT NULL THEN 'ready' WHEN j.state IN ('queued', 'running') THEN j.state ELSE 'failed' END AS status,
	CASE WHEN r.ready_at IS NULL THEN j.error END AS error, coalesce(octet_length(f.content), 0)::bigint AS size_bytes
FROM reports r
LEFT JOIN jobs j ON j.account_id = r.account_id AND j.job_id = r.job_id
LEFT JOIN report_files f ON f.account_id = r.account_id AND f.report_id = r.report_id AND f.format = 'pdf'
WHERE r.account_id = $1`

func (s *Store) queuedLike(ctx context.Context, n *New) (Report, error) {
	return s.one(ctx, selectReport+` AND r.ready_at IS NULL AND j.state = 'queued' AND r.title = $2 AND r.from_time = $3
		AND r.to_time = $4 AND r.timezone = $5 AND r.agents = $6 AND r.group_by = $7
		ORDER BY r.report_id LIMIT 1`, n.AccountID, n.Title, n.From, n.To, n.Timezone, n.Agents, n.GroupBy)
}

// Get returns a report of an account, or ErrNotFound.
func (s *Store) Get(ctx context.Context, accountID, id schema.ID) (Report, error) {
	return s.one(ctx, selectReport+` AND r.report_id = $2`, accountID, id)
}

func (s *Store) one(ctx context.Context, statement string, args ...any) (Report, error) {
	return pgdb.Row[Report](ctx, s.db, "find report", ErrNotFound, statement, args...)
}

// Page returns up to limit reports of an account, newest first, beginning behind before.
func (s *Store) Page(ctx context.Context, accountID schema.ID, before *schema.ID, limit int) ([]Report, error) {
	return pgdb.Rows[Report](ctx, s.db, "list reports", selectReport+` AND ($2::uuid IS NULL OR r.report_id < $2) ORDER BY r.report_id DESC LIMIT $3`,
		accountID, before, limit)
}

const selectFile = `SELECT content FROM report_files WHERE account_id = $1 AND report_id = $2 AND format = $3`

// File returns a report's document. It returns ErrNotReady.
func (s *Store) File(ctx context.Context, accountID, id schema.ID, f Format) ([]byte, error) {
	var content []byte
	err := s.db.QueryRow(ctx, selectFile, accountID, id, f).Scan(&content)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotReady
	}
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return content, nil
}

const insertFile = `
INSERT INTO report_files (report_id, account_id, format, content, sha256) VALUES ($1, $2, $3, $4, sha256($4))`

const setReady = `UPDATE reports SET ready_at = now(), complete = $2, complete_until = $3 WHERE report_id = $1`

// Keep keeps the documents of a report, which is ready then, and whether its figures are complete. The caller holds the job.
func (s *Store) Keep(ctx context.Context, r *Report, files map[Format][]byte) error {
	for format, content := range files {
		if _, err := s.db.Exec(ctx, insertFile, r.ID, r.AccountID, format, content); err != nil {
			return fmt.Errorf("keep report as %s: %w", format, err)
		}
	}
	return pgdb.Exec(ctx, s.db, "mark report as ready", setReady, r.ID, r.Complete, r.CompleteUntil)
}
