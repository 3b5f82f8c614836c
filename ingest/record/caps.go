package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/replay"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// CapProblem returns the response to an event that its caps do not allow, or whose caps cannot be checked.
func CapProblem(e *schema.Event, err error) error {
	var exceeded *lease.ExceededError
	switch {
	case errors.As(err, &exceeded):
		return problem.New(problem.BudgetExceeded, exceededDetail(e, exceeded.Standing))
	case errors.Is(err, lease.ErrUnpriced):
		return problem.New(problem.BudgetExceeded,
			"The budget refuses events whose price is not known. Send cost_usd, or add a price for the model in the dashboard.")
	}
	return &problem.Problem{
		Code:       problem.Internal,
		Detail:     "The budget cannot be checked right now. Send the event again with growing waits.",
		RetryAfter: time.Second,
	}
}

func exceededDetail(e *schema.Event, s lease.Standing) string {
	whose := fmt.Sprintf("The agent %q", e.Agent)
	if s.Budget.Agent == "" {
		whose = "The account"
	}
	detail := fmt.Sprintf("%s has reached its budget cap of %s USD (%s). Raise or reset the cap in the dashboard", whose, s.Budget.Limit, s.Budget.Period)
	if s.ResetsAt.IsZero() {
		return detail + "."
	}
	return detail + fmt.Sprintf(", or wait until %s.", s.ResetsAt.Format(time.RFC3339))
}

// capReached reports whether an event was refused by a cap.
func capReached(err error) bool {
	var p *problem.Problem
	return errors.As(err, &p) && p.Code == problem.BudgetExceeded
}

// errNotConfirmed is the response when a cap would refuse an event that another replica
// may have recorded.
var errNotConfirmed = &problem.Problem{
	Code: problem.Internal,
	Detail: "The budget cap is reached, but it is not known yet whether this event was recorded before. " +
		"Send it again with the same idempotency_key and growing waits.",
	RetryAfter: time.Second,
}

// confirm looks at the events that a cap has refused. 402 means that an event is not recorded, but one with an
// idempotency key may have been recorded before by another replica: then it is a duplicate like any other.
func (r *Recorder) confirm(ctx context.Context, events []Event) {
	var keyed []*Event
	var keys []replay.Key
	for i := range events {
		e := &events[i]
		switch {
		case !capReached(e.Err):
		case e.IdempotencyKey == "":
			r.caps.Refused(e.Event)
		default:
			keyed, keys = append(keyed, e), append(keys, replay.Key{Account: e.AccountID, Event: e.ID})
		}
	}
	if len(keys) == 0 {
		return
	}
	for i, answer := range r.replays.Check(ctx, keys) {
		e := keyed[i]
		switch answer {
		case replay.Recorded:
			e.Err, e.Duplicate = nil, true
		case replay.Unrecorded:
			r.caps.Refused(e.Event)
		case replay.Unknown:
			e.Err = errNotConfirmed
		}
		r.keys.complete(e, e.Err)
	}
}
