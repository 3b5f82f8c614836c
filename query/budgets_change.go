package query

import (
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/budget"
)

// budgetRequest is a cap as a client sets it.
type budgetRequest struct {
	// LimitUSD keeps its JSON text; see parseLimit. Required.
	LimitUSD jsontext.Value `json:"limit_usd"`
	// Period is day, week, month or total. Required.
	Period budget.Period `json:"period"`
	// AlertAt is sorted, and what is there twice taken once. Defaults to none.
	AlertAt []float64 `json:"alert_at"`
	// Timezone is an IANA name. Defaults to UTC.
	Timezone string `json:"timezone"`
	// OnUnpriced defaults to allow.
	OnUnpriced budget.OnUnpriced `json:"on_unpriced"`
}

// parse fills in the defaults and returns the cap that is asked for.
func (r *budgetRequest) parse(scope budget.Scope) (budget.Budget, error) {
	b := budget.Budget{Scope: scope, Period: r.Period, Timezone: r.Timezone, AlertAt: r.AlertAt, OnUnpriced: r.OnUnpriced}
	if b.Timezone == "" {
		b.Timezone = "UTC"
	}
	if b.OnUnpriced == "" {
		b.OnUnpriced = budget.Allow
	}
	if b.AlertAt == nil {
		b.AlertAt = []float64{}
	}
	var faults schema.Faults
	b.Limit = parseLimit(r.LimitUSD, &faults)
	b.Check(&faults)
	// After the check, so that faults name the thresholds in the order in which they were sent.
	slices.Sort(b.AlertAt)
	b.AlertAt = slices.Compact(b.AlertAt)
	return b, rest.Invalid(faults)
}

// parseLimit reads the limit from its JSON text, so that no float comes near it.
func parseLimit(text jsontext.Value, faults *schema.Faults) schema.NanoUSD {
	const field = "limit_usd"
	switch text.Kind() {
	case '0':
	// Kind is 0 when the field was left out.
	case 'n', 0:
		faults.Add(field, "is required")
		return 0
	default:
		faults.Add(field, schema.ErrNotAmount.Error())
		return 0
	}
	limit, err := schema.ParseUSDUpTo(string(text), budget.MaxLimit)
	switch {
	case errors.Is(err, schema.ErrAmountTooLarge):
		faults.Add(field, "must be at most 1000000000")
	case err != nil:
		faults.Add(field, err.Error())
	}
	return limit
}

// budgetDetail is what the audit log shows of a cap that was set.
type budgetDetail struct {
	LimitUSD   schema.NanoUSD    `json:"limit_usd"`
	Period     budget.Period     `json:"period"`
	AlertAt    []float64         `json:"alert_at"`
	Timezone   string            `json:"timezone"`
	OnUnpriced budget.OnUnpriced `json:"on_unpriced"`
}

// putBudget sets a cap, or changes it.
func (s *Server) putBudget(c *rest.Request, scope budget.Scope) error {
	var request budgetRequest
	if err := c.Body(&request); err != nil {
		return err
	}
	b, err := request.parse(scope)
	if err != nil {
		return err
	}
	detail := budgetDetail{b.Limit, b.Period, b.AlertAt, b.Timezone, b.OnUnpriced}
	return s.changeBudget(c, "budget.set", scope, detail, func(ctx context.Context, store *budget.Store) error {
		return store.Put(ctx, b)
	})
}

// resetBudget starts the spend of the present period again from zero.
func (s *Server) resetBudget(c *rest.Request, scope budget.Scope) error {
	if err := c.OptionalBody(&struct{}{}); err != nil {
		return err
	}
	return s.changeBudget(c, "budget.reset", scope, struct{}{}, func(ctx context.Context, store *budget.Store) error {
		// The period comes from the stored cap, since it may have been changed a moment ago.
		b, err := store.Get(ctx, scope)
		if err != nil {
			return err
		}
		return store.Reset(ctx, scope, b.Window(s.now()), &c.Who.UserID)
	})
}

// changeBudget runs an administrative act on a cap and answers the cap.
func (s *Server) changeBudget(
	c *rest.Request, action string, scope budget.Scope, detail any, change func(context.Context, *budget.Store) error,
) error {
	var after usage.Cap
	err := s.administer(c, action, detail, func(ctx context.Context, tx pgx.Tx, _ *account.Store) (string, error) {
		// The state is read in the transaction of the change, so that the response shows that change and no later
		// one.
		if err := change(ctx, budget.NewStore(tx)); err != nil {
			return "", err
		}
		var err error
		after, err = usage.ReadCap(ctx, tx, scope, s.now())
		return budgetTarget(scope), err
	})
	if err != nil {
		return budgetError(err)
	}
	return c.Reply(newBudgetReply(&after))
}

// budgetTarget names a cap in the audit log: by the agent, or by the account.
func budgetTarget(scope budget.Scope) string {
	if scope.Agent == "" {
		return scope.AccountID.Text(schema.AccountPrefix)
	}
	return scope.Agent
}

// deleteBudget removes a cap.
func (s *Server) deleteBudget(c *rest.Request, scope budget.Scope) error {
	return budgetError(s.remove(c, "budget.remove", budgetTarget(scope), func(ctx context.Context, tx pgx.Tx) error {
		return budget.NewStore(tx).Delete(ctx, scope)
	}))
}
