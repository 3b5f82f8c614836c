package jobs

import (
	"sync"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
)

// tryKey distinguishes two tries at one job: a replica may claim a job again that it runs and that was taken from it meanwhile.
type tryKey struct {
	job     schema.ID
	attempt int
}

// running are the tries that a runner works on, with their kinds. It is safe for concurrent use.
type running struct {
	mu sync.Mutex
	// tries is guarded by mu.
	tries map[tryKey]string
	// ended receives when a try has ended, so that a waiting job is claimed at once.
	ended chan struct{}
}

// add is called before the try begins.
func (r *running) add(t *job.Try) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries[tryKey{t.JobID, t.Attempt}] = t.Kind
}

// remove is called when the end of the try is recorded, or could not be: a rescue then puts the job back.
func (r *running) remove(t *job.Try) {
	r.mu.Lock()
	delete(r.tries, tryKey{t.JobID, t.Attempt})
	r.mu.Unlock()
	select {
	case r.ended <- struct{}{}:
	default:
	}
}

// count returns how many jobs of a kind are running.
func (r *running) count(kind string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.tries {
		if k == kind {
			n++
		}
	}
	return n
}

// jobs returns the ids of the running jobs, never nil.
func (r *running) jobs() []schema.ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Empty and not nil: a null array would match no job in the query.
	ids := make([]schema.ID, 0, len(r.tries))
	for key := range r.tries {
		ids = append(ids, key.job)
	}
	return ids
}
