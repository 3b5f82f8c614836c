package report

import (
	"context"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/advisory"
	"github.com/outlayhq/outlay/schema/pgdb"
)

const countSchedules = `SELECT count(*) FROM report_schedules WHERE account_id = $1`

const insertSchedule = `
INSERT INTO report_schedules (schedule_id, account_id, title, frequency, timezone, agents, group_by, recipients, next_at, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// AddSchedule adds a schedule, which was checked. It returns ErrTooMany when the account has MaxSchedules.
func (s *Store) AddSchedule(ctx context.Context, x *Schedule) error {
	if err := advisory.LockAccount(ctx, s.db, advisory.Reports, x.AccountID); err != nil {
		return err
	}
	var have int
	if err := s.db.QueryRow(ctx, countSchedules, x.AccountID).Scan(&have); err != nil {
		return fmt.Errorf("count schedules: %w", err)
	}
	if have >= MaxSchedules {
		return ErrTooMany
	}
	return pgdb.Exec(ctx, s.db, "add schedule", insertSchedule, x.ID, x.AccountID, x.Title, x.Frequency, x.Timezone, x.Agents, x.GroupBy,
		x.Recipients, x.NextAt, x.CreatedBy, x.CreatedAt)
}

const deleteSchedule = `DELETE FROM report_schedules WHERE account_id = $1 AND schedule_id = $2`

// DeleteSchedule ends a schedule; its reports stay. It returns ErrNotFound.
func (s *Store) DeleteSchedule(ctx context.Context, accountID, id schema.ID) error {
	return pgdb.Change(ctx, s.db, "remove schedule", ErrNotFound, deleteSchedule, accountID, id)
}

const scheduleColumns = `
SELECT schedule_id AS id, account_id, title, frequency, timezone, agents, group_by, recipients, next_at, created_by, created_at
FROM report_schedules`

// Schedules returns all schedules of an account, newest first.
func (s *Store) Schedules(ctx context.Context, accountID schema.ID) ([]Schedule, error) {
	return pgdb.Rows[Schedule](ctx, s.db, "list schedules", scheduleColumns+` WHERE account_id = $1 ORDER BY schedule_id DESC`, accountID)
}

// Due returns up to limit schedules that are due, of any account, and holds them until the end of the transaction. Those that
// somebody else holds are left out.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]Schedule, error) {
	return pgdb.Rows[Schedule](ctx, s.db, "find schedules that are due", scheduleColumns+` WHERE next_at <= $1 ORDER BY next_at, schedule_id LIMIT $2 FOR UPDATE SKIP LOCKED`, now, limit)
}

const moveSchedule = `UPDATE report_schedules SET next_at = $2 WHERE schedule_id = $1`

// Make asks for the report that a schedule is due for, notes whom it is to be sent to, and moves the schedule to its next time.
func (s *Store) Make(ctx context.Context, x *Schedule, now time.Time) error {
	request := x.Request()
	request.Normalise()
	id, err := s.Add(ctx, New{Request: request, AccountID: x.AccountID, ScheduleID: &x.ID, At: now})
	if err != nil {
		return err
	}
	if err := s.addDeliveries(ctx, x.AccountID, id, x.Recipients); err != nil {
		return err
	}
	next, err := x.Next(x.NextAt)
	if err != nil {
		return err
	}
	return pgdb.Exec(ctx, s.db, "move schedule", moveSchedule, x.ID, next)
}
