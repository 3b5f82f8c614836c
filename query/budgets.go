package query

import (
	"errors"
	"net/http"
	"strings"
	"unicode"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/problem"
)

// budgetReply is a cap and where it stands.
type budgetReply struct {
	// Agent is null for the cap of the whole account.
	Agent *string `json:"agent"`
	// LimitUSD is reached when spend is equal to it: the event that crosses it is recorded, the next one is refused.
	LimitUSD schema.NanoUSD `json:"limit_usd"`
	// SpentUSD is the cost of the stored events that arrived in the period since its last reset.
	SpentUSD usage.USD `json:"spent_usd"`
	// RemainingUSD is never negative, Used is rounded down to four decimals: 1 or more means reached.
	RemainingUSD schema.NanoUSD `json:"remaining_usd"`
	Used         float64        `json:"used"`
	// Period begins at midnight in Timezone; weeks begin on Monday, total never begins anew.
	Period   budget.Period `json:"period"`
	Timezone string        `json:"timezone"`
	// AlertAt are shares of the limit that are worth a message.
	AlertAt []float64 `json:"alert_at"`
	// OnUnpriced is whether an event without a known price is recorded at cost 0 or refused.
	OnUnpriced budget.OnUnpriced `json:"on_unpriced"`
	// PeriodStart and ResetsAt are null for a cap that never starts anew.
	PeriodStart usage.Time `json:"period_start"`
	ResetsAt    usage.Time `json:"resets_at"`
	// ResetAt and ResetBy are of the last reset in this period, and left out without one.
	ResetAt *usage.Time `json:"reset_at,omitempty"`
	ResetBy *string     `json:"reset_by,omitempty"`
	// ProjectedUSD is the spend at the end of the period at the pace since its start or reset, null for total.
	ProjectedUSD *usage.USD `json:"projected_usd"`
	// RefusedEvents were refused in the period; RefusedCostUSD is what they would have cost.
	RefusedEvents  int64      `json:"refused_events"`
	RefusedCostUSD usage.USD  `json:"refused_cost_usd"`
	CreatedAt      usage.Time `json:"created_at"`
	UpdatedAt      usage.Time `json:"updated_at"`
}

// newBudgetReply computes nothing: the store has found the window that holds now.
func newBudgetReply(b *usage.Cap) budgetReply {
	reply := budgetReply{
		Agent: nonEmpty(b.Agent), LimitUSD: b.Limit, SpentUSD: usage.USDOf(b.State.Spent), RemainingUSD: b.Remaining(), Used: b.Used(),
		Period: b.Period, Timezone: b.Timezone, AlertAt: b.AlertAt, OnUnpriced: b.OnUnpriced, ProjectedUSD: b.Projected(),
		RefusedEvents: b.State.RefusedEvents, RefusedCostUSD: usage.USDOf(b.State.RefusedCost),
		CreatedAt: usage.Time{Time: b.CreatedAt}, UpdatedAt: usage.Time{Time: b.UpdatedAt},
	}
	if b.Period != budget.Total {
		reply.PeriodStart, reply.ResetsAt = usage.Time{Time: b.Window.Start}, usage.Time{Time: b.Window.End}
	}
	if at := b.State.ResetAt; at != nil {
		reply.ResetAt = &usage.Time{Time: *at}
	}
	reply.ResetBy = idText(b.State.ResetBy, schema.UserPrefix)
	return reply
}

// budgetHandler answers a request about the cap of an agent, or of the whole
// account for the empty name.
type budgetHandler func(c *rest.Request, scope budget.Scope) error

// ofAccount serves the cap of the whole account with the handler of an agent's.
func ofAccount(h budgetHandler) handler {
	return func(c *rest.Request) error { return h(c, budget.Scope{AccountID: c.Who.AccountID}) }
}

// ofAgent takes the name as tracking does: without the spaces around it, and in normal form.
func ofAgent(h budgetHandler) handler {
	return func(c *rest.Request) error {
		name := schema.NormalName(strings.TrimFunc(c.Param("name"), func(r rune) bool { return unicode.Is(unicode.Zs, r) }))
		message := schema.NameFault(name, schema.MaxNameLength)
		switch {
		case name == "":
			message = "must not be empty"
		case message == "":
			return h(c, budget.Scope{AccountID: c.Who.AccountID, Agent: name})
		}
		// Only PUT could make such a budget; for the other methods it does not exist.
		if c.Request.Method == http.MethodPut {
			return problem.FromFaults(schema.Faults{{Field: "name", Message: message}})
		}
		return errNoBudget
	}
}

var errNoBudget = problem.New(problem.NotFound, "There is no such budget in this account. PUT sets one.")

// budgetError is storeError with the hint that PUT sets a budget.
func budgetError(err error) error {
	if errors.Is(err, usage.ErrNotFound) || errors.Is(err, budget.ErrNotFound) {
		return errNoBudget
	}
	return storeError(err, "budget")
}

// budget answers a cap.
func (s *Server) budget(c *rest.Request, scope budget.Scope) error {
	found, err := s.usage.Budget(c.Ctx(), scope, s.now())
	if err != nil {
		return budgetError(err)
	}
	return c.Reply(newBudgetReply(&found))
}

// budgetPosition is the last cap of a page; the account's own has no agent.
type budgetPosition struct {
	Agent string `json:"a"`
}

func (p *budgetPosition) valid() bool { return schema.TextFault(p.Agent, schema.MaxNameLength) == "" }

// listBudgets answers a page of caps by name, the account's own first.
func (s *Server) listBudgets(c *rest.Request) error {
	p := c.Params("limit", "cursor")
	limit := p.Limit()
	position := rest.ReadCursor(c, p, (*budgetPosition).valid)
	if err := p.Err(); err != nil {
		return err
	}
	var after *string
	if position != nil {
		after = &position.Agent
	}
	// The account's own cap has the empty name and so comes first.
	budgets, err := s.usage.Budgets(c.Ctx(), c.Who.AccountID, after, limit+1, s.now())
	if err != nil {
		return storeError(err, "budget")
	}
	return rest.ReplyPage(c, p, limit, budgets, newBudgetReply, func(b *usage.Cap) budgetPosition { return budgetPosition{b.Agent} })
}

// addBudgets fills in the caps of the agents in an answer.
func (s *Server) addBudgets(c *rest.Request, replies []agentReply) error {
	if len(replies) == 0 {
		return nil
	}
	// One statement for the caps of the whole page.
	names := make([]string, len(replies))
	for i := range replies {
		names[i] = replies[i].Name
	}
	caps, err := s.usage.CapsOf(c.Ctx(), c.Who.AccountID, names, s.now())
	if err != nil {
		return storeError(err, "agent")
	}
	for i := range replies {
		if found := caps[replies[i].Name]; found != nil {
			reply := newBudgetReply(found)
			replies[i].Budget = &reply
		}
	}
	return nil
}
