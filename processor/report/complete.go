package report

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/processor/jobs"
	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/report"
)

// completeness is how far the sums of a snapshot are complete. The zero value is that nothing is known.
type completeness struct {
	// stored is the time before which every accepted event is stored; zero when that is not known.
	stored time.Time
	// late is the start of the first quarter hour whose sums lack events that are stored; zero when there is none.
	late time.Time
}

// A quarter hour that got a late event is noted until its sums hold the event.
const selectCompleteness = `
SELECT CASE WHEN done.until > '-infinity' THEN done.until END, late.since
FROM (SELECT min(complete_until) AS until FROM kafka_offsets) AS done,
	(SELECT min(bucket) AS since FROM late_buckets WHERE bucket >= $1 AND bucket < $2) AS late`

// querier is a transaction, a connection or a pool.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readCompleteness reads how far the sums between two times are complete.
func readCompleteness(ctx context.Context, db querier, from, to time.Time) (completeness, error) {
	var stored, late *time.Time
	if err := db.QueryRow(ctx, selectCompleteness, from, to).Scan(&stored, &late); err != nil {
		return completeness{}, fmt.Errorf("complete until: %w", err)
	}
	var c completeness
	if stored != nil {
		c.stored = stored.UTC()
	}
	if late != nil {
		c.late = late.UTC()
	}
	return c, nil
}

// covers reports whether the sums hold every event that was accepted before t.
func (c completeness) covers(t time.Time) bool {
	return !c.stored.IsZero() && !c.stored.Before(t) && c.late.IsZero()
}

// until is the time up to which the sums hold everything; zero when that is not known.
func (c completeness) until() time.Time {
	if !c.late.IsZero() && c.late.Before(c.stored) {
		return c.late
	}
	return c.stored
}

// missing describes what the sums lack of the events that were accepted before t.
func (c completeness) missing(t time.Time) string {
	switch {
	case c.stored.IsZero():
		return fmt.Sprintf("events that were accepted before %s: how far they are stored is not known", clock(t))
	case c.stored.Before(t):
		return fmt.Sprintf("events that were accepted before %s: stored until %s", clock(t), clock(c.stored))
	default:
		return fmt.Sprintf("sums from %s on, which lack late events", clock(c.late))
	}
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

const (
	// completeWithin is how long a job waits for its figures to be complete.
	completeWithin = time.Minute
	// completePoll is how often it looks.
	completePoll = 500 * time.Millisecond
)

// await waits until the sums of a report hold everything that was accepted before asOf, at most until deadline.
func (m *Maker) await(ctx context.Context, t *jobs.Task[report.Args], r *report.Report, asOf, deadline time.Time) error {
	for {
		c, err := readCompleteness(ctx, m.Pool, before(r), r.To)
		if err != nil || c.covers(asOf) || !m.Now().Before(deadline) {
			return err
		}
		if err := t.Waiting(ctx, c.missing(asOf)); err != nil {
			return err
		}
		if err := backoff.Sleep(ctx, completePoll); err != nil {
			return err
		}
	}
}
