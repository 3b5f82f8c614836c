// Package reprice is what the tiers agree on about repricing: what is asked for, with which prices, and how far it is. The query
// tier asks, and pins the price book by which it is done; the processor does it, as a job. Prices themselves are left to package
// price, and how a slice of events is corrected to the database.
package reprice

import (
	"fmt"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
)

// Request says which events are to be repriced.
type Request struct {
	// From is inclusive, To exclusive: when the calls happened.
	From, To time.Time
	// Model is a name as clients sent it; nil: any.
	Model *string
	// DryRun only says what would change.
	DryRun bool
}

// Check notes all that is wrong with a request whose times are given.
func (r *Request) Check(faults *schema.Faults) {
	if !r.From.Before(r.To) {
		faults.Add("from", "must be before to")
	}
	switch {
	case r.Model == nil:
	case *r.Model == "":
		faults.Add("model", "must not be empty")
	default:
		faults.CheckName("model", *r.Model, schema.MaxNameLength)
	}
}

// Args are those of the job. They are for those who look at it: what counts is kept beside, with the price book.
type Args struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Model  *string   `json:"model"`
	DryRun bool      `json:"dry_run"`
	// PriceBook is the SHA-256 of the catalogue, and Overrides how many prices of the account's own come before it.
	PriceBook string `json:"price_book"`
	Overrides int    `json:"overrides"`
}

// Kind names the jobs that reprice.
func (Args) Kind() string { return "reprice" }

// RunningError is returned when a job of the account has not ended: only one reprices at a time.
type RunningError struct{ JobID schema.ID }

// Error names the job.
func (e *RunningError) Error() string {
	return fmt.Sprintf("%s is repricing events of this account", e.JobID.Text(job.Prefix))
}

// Settle is how long after they were asked for the prices that were pinned are in force on every replica of ingest. Events that
// are received until then are repriced as well, in case a replica did not know a new price yet; to those that it knew it for,
// nothing happens.
const Settle = 2 * time.Second
