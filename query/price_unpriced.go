package query

import (
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// unpricedReply is a model that no price is known of.
type unpricedReply struct {
	// Provider is null when the client named none and the model gave none away; Model for calls with tokens and
	// without a model.
	Provider *string `json:"provider"`
	Model    *string `json:"model"`
	// Events are calls that could not be priced, the tokens are theirs.
	Events       int64     `json:"events"`
	InputTokens  usage.Sum `json:"input_tokens"`
	OutputTokens usage.Sum `json:"output_tokens"`
	Agents       []string  `json:"agents"`
	// LastSeen is the latest of these calls.
	LastSeen usage.Time `json:"last_seen"`
}

// newUnpricedReply shows empty names as null.
func newUnpricedReply(m *usage.UnpricedModel) unpricedReply {
	return unpricedReply{nonEmpty(m.Provider), nonEmpty(m.Model), m.Events, m.InputTokens, m.OutputTokens, m.Agents, m.LastSeen}
}

// unpricedPage is a page of models and the range it is about.
type unpricedPage struct {
	From usage.Time `json:"from"`
	To   usage.Time `json:"to"`
	rest.List[unpricedReply]
	CompleteUntil usage.Time `json:"complete_until"`
}

// unpricedPosition is the last model of a page. It keeps the range of the first page.
type unpricedPosition struct {
	From     int64  `json:"f"`
	To       int64  `json:"t"`
	Events   int64  `json:"n"`
	Provider string `json:"p"`
	Model    string `json:"m"`
}

// valid checks everything that goes into the statement.
func (p *unpricedPosition) valid() bool {
	first, end := usage.AllTime()
	from, to := time.Unix(p.From, 0), time.Unix(p.To, 0)
	return !from.Before(first) && from.Before(to) && !to.After(end) && p.Events >= 0 &&
		schema.TextFault(p.Provider, schema.MaxNameLength) == "" && schema.TextFault(p.Model, schema.MaxNameLength) == ""
}

// listUnpriced answers the models whose calls could not be priced, the most frequent
// first.
func (s *Server) listUnpriced(c *rest.Request) error {
	p := c.Params("from", "to", "limit", "cursor")
	limit := p.Limit()
	q := usage.UnpricedQuery{Range: usage.NewRange(p.Span(time.UTC, s.now(), rest.DaysBefore(agentDays))), Limit: limit + 1}
	// The order is by a count that grows: the range of the first page keeps it as it was.
	if after := rest.ReadCursor(c, p, (*unpricedPosition).valid); after != nil {
		q.Range = usage.Range{From: time.Unix(after.From, 0).UTC(), To: time.Unix(after.To, 0).UTC()}
		q.After = &usage.UnpricedPosition{Events: after.Events, Provider: after.Provider, Model: after.Model}
	}
	if err := p.Err(); err != nil {
		return err
	}
	models, complete, err := s.usage.Unpriced(c.Ctx(), c.Who.AccountID, &q)
	if err != nil {
		return storeError(err, "model")
	}
	page := unpricedPage{From: usage.Time{Time: q.Range.From}, To: usage.Time{Time: q.Range.To}, CompleteUntil: complete}
	page.List, err = rest.PageOf(c, p, limit, models, newUnpricedReply, func(m *usage.UnpricedModel) unpricedPosition {
		return unpricedPosition{q.Range.From.Unix(), q.Range.To.Unix(), m.Events, m.Provider, m.Model}
	})
	if err != nil {
		return err
	}
	return c.Reply(page)
}
