package schematest

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
)

// StartJob begins a try at an unfinished job as a runner does, and gives up the try before. The runner is taken for dead after a
// minute without another StartJob.
func StartJob(t testing.TB, pool *pgxpool.Pool, id schema.ID) *job.Try {
	t.Helper()
	var kind string
	err := pool.QueryRow(t.Context(), `
WITH beat AS (
	INSERT INTO job_runners (runner_id, seen_at) VALUES ('schematest', now()) ON CONFLICT (runner_id) DO UPDATE SET seen_at = now()
)
UPDATE jobs SET state = 'queued', runner_id = NULL, run_at = '-infinity' WHERE job_id = $1 RETURNING kind`, id).Scan(&kind)
	if err != nil {
		t.Fatal(err)
	}
	tries, err := job.NewStore(pool).Claim(t.Context(), "schematest", time.Minute, []string{kind}, []int{1})
	if err != nil || len(tries) != 1 || tries[0].JobID != id {
		t.Fatalf("Claim = %+v, %v, want a try at %v", tries, err, id)
	}
	return &tries[0]
}
