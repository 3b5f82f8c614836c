package ingest

import (
	"errors"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// capProblem is the answer to an event that its caps do not let through.
func capProblem(e *schema.Event, err error) error {
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

// appendBudget appends where a cap stands.
func appendBudget(dst []byte, s lease.Standing) []byte {
	dst = append(dst, `{"limit_usd":`...)
	dst = s.Budget.Limit.AppendText(dst)
	dst = append(dst, `,"spent_usd":`...)
	dst = s.Spent.AppendText(dst)
	dst = append(dst, `,"remaining_usd":`...)
	dst = s.Remaining.AppendText(dst)
	dst = append(dst, `,"period":"`...)
	dst = append(dst, s.Budget.Period...)
	dst = append(dst, `","resets_at":`...)
	if s.ResetsAt.IsZero() {
		return append(dst, `null}`...)
	}
	dst = append(dst, '"')
	dst = s.ResetsAt.UTC().AppendFormat(dst, time.RFC3339)
	return append(dst, `"}`...)
}
