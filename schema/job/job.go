// Package job is what the tiers agree on about jobs: work that takes longer than a request. The query tier adds a job and answers its
// id; a runner of the processor claims it; everybody may look at how far it is. The table jobs is the queue as well: a job is added in
// the transaction of what it belongs to, and claimed with SKIP LOCKED. Who runs jobs, and how, is left to the processor.
package job

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// Prefix begins the text form of a job's id.
const Prefix schema.Prefix = "job"

// Args is what a kind of job is given. It is kept as JSON. Kind is the same for every value of a type: lower-case letters,
// digits and underscores, such as "report".
type Args interface{ Kind() string }

// State is where a job stands.
type State string

// The states of a job. A job whose try failed is queued again until it fails for good.
const (
	Queued  State = "queued"
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
)

// Job is a job as it can be looked at.
type Job struct {
	ID        schema.ID
	AccountID schema.ID
	Kind      string
	Args      json.RawMessage
	State     State
	// Attempt counts the tries, 0 before the first.
	Attempt int
	// Done of Total are done, in units of the kind's own. Total is nil while it is not known.
	Done  int64
	Total *int64
	// WaitingFor is what the running try waits for, for people; nil when it does not wait.
	WaitingFor *string
	// Error is why the last try did not succeed, for people; nil when it did or there was none.
	Error *string
	// Result is what the job found, nil before its end and for kinds that answer nothing.
	Result     json.RawMessage
	CreatedBy  *schema.ID
	CreatedAt  time.Time
	StartedAt  *time.Time
	FinishedAt *time.Time
}

var (
	// ErrNotFound is returned for a job that the account does not have.
	ErrNotFound = errors.New("there is no such job")
	// ErrLost is returned to a try that was given up: another one has taken the job, or the job has ended.
	ErrLost = errors.New("another try has taken the job")
)
