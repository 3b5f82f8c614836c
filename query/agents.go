package query

import (
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// agentReply is an agent in the list.
type agentReply struct {
	Name           string    `json:"name"`
	Events         int64     `json:"events"`
	Errors         int64     `json:"errors"`
	UnpricedEvents int64     `json:"unpriced_events"`
	RefusedEvents  int64     `json:"refused_events"`
	RefusedCostUSD usage.USD `json:"refused_cost_usd"`
	Sessions       int64     `json:"sessions"`
	InputTokens    usage.Sum `json:"input_tokens"`
	OutputTokens   usage.Sum `json:"output_tokens"`
	CostUSD        usage.USD `json:"cost_usd"`
	usage.Latency
	FirstSeen usage.Time `json:"first_seen"`
	LastSeen  usage.Time `json:"last_seen"`
	Models    []string   `json:"models"`
	// Budget is null until the agent has a cap.
	Budget *budgetReply `json:"budget"`
}

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
	From    int64  `json:"f"`
	To      int64  `json:"t"`
	SortKey string `json:"k"`
	Name    string `json:"n"`
}

func (p *agentPosition) valid() bool {
	first, end := usage.AllTime()
	from, to := time.Unix(p.From, 0), time.Unix(p.To, 0)
	return !from.Before(first) && from.Before(to) && !to.After(end) &&
		wholeNumber(p.SortKey) && schema.TextFault(p.Name, schema.MaxNameLength) == ""
}

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
	order := usage.AgentOrder(p.OneOf("sort", string(usage.AgentsByCost), string(usage.AgentsByCost),
		string(usage.AgentsByEvents), string(usage.AgentsByName), string(usage.AgentsByLastSeen)))
	limit := p.Limit()
	q := usage.AgentQuery{Range: span, Text: p.Text("q"), Order: order, Descending: p.Descending(order != usage.AgentsByName), Limit: limit + 1}
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
	if err := s.addBudgets(c, pointers(page.Data)...); err != nil {
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
	CacheRead      usage.Sum `json:"cache_read_tokens"`
	CostUSD        usage.USD `json:"cost_usd"`
	usage.Latency
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

type modelReply struct {
	Model *string `json:"model"`
	usageReply
}

type dayReply struct {
	Bucket usage.Time `json:"bucket"`
	usageReply
}

type agentDetailReply struct {
	agentReply
	ByModel []modelReply `json:"by_model"`
	Daily   []dayReply   `json:"daily"`
}

// agent answers what one agent did, by model and by day.
func (s *Server) agent(c *rest.Request) error {
	p := c.Params("from", "to")
	span := usage.NewRange(p.Span(time.UTC, s.now(), rest.DaysBefore(agentDays)))
	if err := p.Err(); err != nil {
		return err
	}
	name := schema.NormalName(c.Param("name"))
	if schema.NameFault(name, schema.MaxNameLength) != "" {
		return storeError(usage.ErrNotFound, "agent")
	}
	detail, err := s.usage.Agent(c.Ctx(), c.Who.AccountID, name, span)
	if err != nil {
		return storeError(err, "agent")
	}
	reply := agentDetailReply{
		agentReply: newAgentReply(&detail.Agent),
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
	if err := s.addBudgets(c, &reply.agentReply); err != nil {
		return err
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
