package query

import (
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// agentReply is an agent in the list.
type agentReply struct {
	Name string `json:"name"`
	// Events counts all events, failed ones included.
	Events int64 `json:"events"`
	// Errors are events with the status error.
	Errors int64 `json:"errors"`
	// UnpricedEvents cost nothing because no price was known; they make CostUSD too small.
	UnpricedEvents int64 `json:"unpriced_events"`
	// RefusedEvents were refused by a cap and are not stored; RefusedCostUSD is what they would have cost.
	RefusedEvents  int64     `json:"refused_events"`
	RefusedCostUSD usage.USD `json:"refused_cost_usd"`
	// Sessions are those that overlap the range, implicit ones left out.
	Sessions int64 `json:"sessions"`
	// InputTokens and OutputTokens may exceed an int64: JSON shows all their digits.
	InputTokens  usage.Sum `json:"input_tokens"`
	OutputTokens usage.Sum `json:"output_tokens"`
	CostUSD      usage.USD `json:"cost_usd"`
	usage.Latency
	// FirstSeen and LastSeen are times of events within the range.
	FirstSeen usage.Time `json:"first_seen"`
	LastSeen  usage.Time `json:"last_seen"`
	// Models are in the order of the alphabet.
	Models []string `json:"models"`
	// Budget is null until the agent has a cap.
	Budget *budgetReply `json:"budget"`
}

// newAgentReply leaves the budget to addBudgets, which reads those of a whole page at once.
func newAgentReply(a *usage.Agent) agentReply {
	models := a.Models
	if models == nil {
		models = []string{}
	}
	return agentReply{
		Name:           a.Name,
		Events:         a.Events,
		Errors:         a.Errors,
		UnpricedEvents: a.UnpricedEvents,
		RefusedEvents:  a.RefusedEvents,
		RefusedCostUSD: a.RefusedCostUSD,
		Sessions:       a.Sessions,
		InputTokens:    a.InputTokens,
		OutputTokens:   a.OutputTokens,
		CostUSD:        a.CostUSD,
		Latency:        a.Latency(),
		FirstSeen:      a.FirstSeen,
		LastSeen:       a.LastSeen,
		Models:         models,
	}
}

// agentPosition is the last agent of a page. It keeps the range of the first page,
// so that events that arrive meanwhile move no agent from one page to another.
type agentPosition struct {
	// From and To are in Unix seconds: a range is widened to whole quarter hours.
	From int64 `json:"f"`
	To   int64 `json:"t"`
	// SortKey is the sorted value in decimal digits: nano-dollars, a count or microseconds, and 0 by name.
	SortKey string `json:"k"`
	Name    string `json:"n"`
}

// valid checks everything that goes into a statement: a cursor is not signed.
func (p *agentPosition) valid() bool {
	first, end := usage.AllTime()
	from, to := time.Unix(p.From, 0), time.Unix(p.To, 0)
	return !from.Before(first) && from.Before(to) && !to.After(end) &&
		wholeNumber(p.SortKey) && schema.TextFault(p.Name, schema.MaxNameLength) == ""
}

// span returns the range of the first page.
func (p *agentPosition) span() usage.Range {
	return usage.Range{From: time.Unix(p.From, 0).UTC(), To: time.Unix(p.To, 0).UTC()}
}

// wholeNumber reports whether text is up to 60 decimal digits.
func wholeNumber(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != "" && len(text) <= 60
}

// agentDays is how many days an answer about agents covers by default.
const agentDays = 30

// listAgents answers a page of agents with what they did.
func (s *Server) listAgents(c *rest.Request) error {
	p := c.Params("from", "to", "q", "sort", "order", "limit", "cursor")
	span := usage.NewRange(p.Span(time.UTC, s.now(), rest.DaysBefore(agentDays)))
	// Names go up from a; everything else goes down from the most.
	order := usage.AgentOrder(p.OneOf("sort", string(usage.AgentsByCost), string(usage.AgentsByCost),
		string(usage.AgentsByEvents), string(usage.AgentsByName), string(usage.AgentsByLastSeen)))
	limit := p.Limit()
	q := usage.AgentQuery{Range: span, Text: p.Text("q"), Order: order, Descending: p.Descending(order != usage.AgentsByName), Limit: limit + 1}
	// From and to of a cursor win over a to that was left out and is now later.
	if after := rest.ReadCursor(c, p, (*agentPosition).valid); after != nil {
		q.Range = after.span()
		q.After = &usage.AgentPosition{SortKey: after.SortKey, Name: after.Name}
	}
	if err := p.Err(); err != nil {
		return err
	}
	agents, err := s.usage.Agents(c.Ctx(), c.Who.AccountID, &q)
	if err != nil {
		return storeError(err, "agent")
	}
	page, err := rest.PageOf(c, p, limit, agents, newAgentReply, func(a *usage.Agent) agentPosition {
		return agentPosition{q.Range.From.Unix(), q.Range.To.Unix(), a.SortKey.String(), a.Name}
	})
	if err != nil {
		return err
	}
	// The budgets of at most one page, in one more statement.
	if err := s.addBudgets(c, page.Data); err != nil {
		return err
	}
	return c.Reply(page)
}

// usageReply is what a part of an agent's usage adds up to.
type usageReply struct {
	Events         int64     `json:"events"`
	Errors         int64     `json:"errors"`
	UnpricedEvents int64     `json:"unpriced_events"`
	InputTokens    usage.Sum `json:"input_tokens"`
	OutputTokens   usage.Sum `json:"output_tokens"`
	// CacheRead tokens are a part of InputTokens.
	CacheRead usage.Sum `json:"cache_read_tokens"`
	CostUSD   usage.USD `json:"cost_usd"`
	// Latency is the average and percentiles in milliseconds, null without an event that has a latency.
	usage.Latency
	// MaxLatencyMS is exact, where percentiles are of a histogram.
	MaxLatencyMS *int64 `json:"max_latency_ms"`
}

func newUsageReply(m *usage.Measures) usageReply {
	return usageReply{
		Events:         m.Events,
		Errors:         m.Errors,
		UnpricedEvents: m.UnpricedEvents,
		InputTokens:    m.InputTokens,
		OutputTokens:   m.OutputTokens,
		CacheRead:      m.CacheReadTokens,
		CostUSD:        m.CostUSD,
		Latency:        m.Latency(),
		MaxLatencyMS:   m.MaxLatencyMS(),
	}
}

// modelReply is the usage of one model; null stands for events without one.
type modelReply struct {
	Model *string `json:"model"`
	usageReply
}

// dayReply is the usage of one UTC day.
type dayReply struct {
	Bucket usage.Time `json:"bucket"`
	usageReply
}

// agentDetailReply is one agent. ByModel and Daily each add up to its totals.
type agentDetailReply struct {
	agentReply
	// ByModel has the dearest model first.
	ByModel []modelReply `json:"by_model"`
	// Daily is in the order of the days.
	Daily []dayReply `json:"daily"`
}

// agent answers what one agent did, by model and by day.
func (s *Server) agent(c *rest.Request) error {
	p := c.Params("from", "to")
	span := usage.NewRange(p.Span(time.UTC, s.now(), rest.DaysBefore(agentDays)))
	if err := p.Err(); err != nil {
		return err
	}
	// A name that tracking would refuse cannot be one of an agent.
	name := schema.NormalName(c.Param("name"))
	if schema.NameFault(name, schema.MaxNameLength) != "" {
		return storeError(usage.ErrNotFound, "agent")
	}
	detail, err := s.usage.Agent(c.Ctx(), c.Who.AccountID, name, span)
	if err != nil {
		return storeError(err, "agent")
	}
	agents := []agentReply{newAgentReply(&detail.Agent)}
	if err := s.addBudgets(c, agents); err != nil {
		return err
	}
	reply := agentDetailReply{
		agentReply: agents[0],
		ByModel:    make([]modelReply, 0, len(detail.ByModel)),
		Daily:      make([]dayReply, 0, len(detail.Daily)),
	}
	for _, m := range detail.ByModel {
		reply.ByModel = append(reply.ByModel, modelReply{nonEmpty(m.Model), newUsageReply(&m.Measures)})
	}
	for i := range detail.Daily {
		day := &detail.Daily[i]
		reply.Daily = append(reply.Daily, dayReply{usage.Time{Time: day.Start}, newUsageReply(&day.Measures)})
	}
	return c.Reply(reply)
}

// idText returns the text form of an id, nil for nil.
func idText(id *schema.ID, prefix schema.Prefix) *string {
	if id == nil {
		return nil
	}
	text := id.Text(prefix)
	return &text
}

// nonEmpty returns nil for the empty text, which JSON shows as null.
func nonEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
