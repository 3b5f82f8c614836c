package report

import (
	"context"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/processor/jobs"
	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/report"
)

// completeness is the time before which every accepted event is in the sums; zero when that is not known.
type completeness struct{ time.Time }

// Without any partition, or with one that was never complete, it is not known.
const selectCompleteness = `SELECT CASE WHEN complete_until > '-infinity' THEN complete_until END FROM usage_progress`

// readCompleteness reads how far the sums are complete.
func readCompleteness(ctx context.Context, db pgdb.DB) (completeness, error) {
	until, err := pgdb.Value[*time.Time](ctx, db, "complete until", selectCompleteness)
	if err != nil || until == nil {
		return completeness{}, err
	}
	return completeness{until.UTC()}, nil
}

// covers reports whether the sums hold every event that was accepted before t.
func (c completeness) covers(t time.Time) bool { return !c.IsZero() && !c.Before(t) }

// missing describes what the sums lack of the events that were accepted before t.
func (c completeness) missing(t time.Time) string {
	if c.IsZero() {
		return fmt.Sprintf("events that were accepted before %s: how far they are stored is not known", clock(t))
	}
	return fmt.Sprintf("events that were accepted before %s: stored until %s", clock(t), clock(c.Time))
}

// clock writes a time for people who look at the job.
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
		// Read without a transaction: the report itself reads it again in its snapshot.
		c, err := readCompleteness(ctx, m.Pool)
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
