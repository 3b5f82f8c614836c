package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Intake is what was taken from Kafka and what became of it.
type Intake struct {
	Accepted     int64
	Stored       int64
	Duplicates   int64
	DeadLettered int64
	// RefusedLate are events that were written after their lease of a cap was given to others.
	RefusedLate int64
	// Found is how many of the stored events are in the table now; nil where nobody
	// looked, or where retention has taken some of them.
	Found *int64
}

// Difference is the number of records of which nothing is known. Events that were
// looked for and not found are among them.
func (i *Intake) Difference() int64 {
	stored := i.Stored
	if i.Found != nil {
		stored = *i.Found
	}
	return i.Accepted - stored - i.Duplicates - i.DeadLettered - i.RefusedLate
}

// IntakeHour is the intake of an hour of arrival.
type IntakeHour struct {
	Hour Time
	Intake
}

const selectIntake = `
SELECT hour, accepted, stored, duplicates, dead_letters AS dead_lettered, refused_late, NULL::bigint AS found
FROM intake WHERE account_id = $1 AND hour >= $2 AND hour < $3
ORDER BY hour`

// selectFound looks for the events of each hour where they are, by the times that
// intake knows. Where retention has reached those times nothing can be said.
const selectFound = `
WITH kept AS (
	SELECT greatest(raw_dropped_before, now() - raw_retention, (SELECT deleted_before FROM account_retention WHERE account_id = $1)) AS since
	FROM schema_settings
), hours AS MATERIALIZED (
	SELECT hour, accepted, stored, duplicates, dead_letters, refused_late, first_ts, last_ts, stored = 0 OR first_ts >= kept.since AS whole
	FROM intake, kept WHERE account_id = $1 AND hour >= $2 AND hour < $3
), found AS (
	SELECT date_bin('1 hour', e.received_at, timestamptz '2000-01-01 00:00:00+00') AS hour, count(*) AS events
	FROM events e
	WHERE e.account_id = $1 AND e.received_at >= $2 AND e.received_at < $3
		AND e.ts >= (SELECT min(first_ts) FROM hours WHERE whole) AND e.ts <= (SELECT max(last_ts) FROM hours WHERE whole)
	GROUP BY 1
)
SELECT hour, coalesce(h.accepted, 0) AS accepted, coalesce(h.stored, 0) AS stored, coalesce(h.duplicates, 0) AS duplicates,
	coalesce(h.dead_letters, 0) AS dead_lettered, coalesce(h.refused_late, 0) AS refused_late, CASE WHEN coalesce(h.whole, true) THEN coalesce(f.events, 0) END AS found
FROM hours h FULL JOIN found f USING (hour)
ORDER BY hour`

// Integrity returns the intake of each hour from from up to, but not including, to in
// which anything arrived, and up to when everything that was accepted is in it. With
// look the stored events are looked for one by one.
func (s *Store) Integrity(ctx context.Context, accountID schema.ID, from, to time.Time, look bool) (hours []IntakeHour, until Time, err error) {
	statement := selectIntake
	if look {
		statement = selectFound
	}
	err = s.read(ctx, accountID, func(ctx context.Context, tx pgx.Tx) (err error) {
		rows, _ := tx.Query(ctx, statement, accountID, from, to)
		if hours, err = pgx.CollectRows(rows, pgx.RowToStructByName[IntakeHour]); err != nil {
			return err
		}
		until, err = taken(ctx, tx)
		return err
	})
	if err != nil {
		return nil, Time{}, fmt.Errorf("compare what was accepted with what is stored: %w", err)
	}
	return hours, until, nil
}

const selectTaken = `
SELECT CASE WHEN min(complete_until) > '-infinity' THEN min(complete_until) END FROM kafka_offsets`

// taken is the time up to which everything that was accepted was taken from Kafka.
// Aggregates that wait for late events do not hold it back: intake is none.
func taken(ctx context.Context, tx pgx.Tx) (until Time, err error) {
	err = tx.QueryRow(ctx, selectTaken).Scan(&until)
	return until, err
}
