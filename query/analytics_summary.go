package query

import (
	"math"
	"math/big"
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
)

// summaryReply is what a dashboard shows first.
type summaryReply struct {
	From   usage.Time `json:"from"`
	To     usage.Time `json:"to"`
	Totals usageReply `json:"totals"`
	// Previous is the time of the same length before From.
	Previous periodReply `json:"previous"`
	Change   changeReply `json:"change"`
	// TopAgents and TopModels have the dearest first.
	TopAgents []topReply `json:"top_agents"`
	TopModels []topReply `json:"top_models"`
	// Month is the running UTC month, whatever From and To are.
	Month         monthEndReply `json:"month"`
	CompleteUntil usage.Time    `json:"complete_until"`
}

// periodReply is a range and its totals.
type periodReply struct {
	From   usage.Time `json:"from"`
	To     usage.Time `json:"to"`
	Totals usageReply `json:"totals"`
}

// changeReply is how totals differ from the period before, in per cent; null
// where that had none.
type changeReply struct {
	CostUSD      *float64 `json:"cost_usd_percent"`
	Events       *float64 `json:"events_percent"`
	Errors       *float64 `json:"errors_percent"`
	InputTokens  *float64 `json:"input_tokens_percent"`
	OutputTokens *float64 `json:"output_tokens_percent"`
}

// topReply has an agent, or a model and its provider.
type topReply struct {
	Agent    *string    `json:"agent,omitempty"`
	Model    *groupName `json:"model,omitempty"`
	Provider *groupName `json:"provider,omitempty"`
	usageReply
}

// monthEndReply is the month so far, and what it comes to at the pace of the last seven days.
type monthEndReply struct {
	Start        usage.Time `json:"start"`
	End          usage.Time `json:"end"`
	SpentUSD     usage.USD  `json:"spent_usd"`
	ProjectedUSD usage.USD  `json:"projected_usd"`
}

// summary answers totals, their change, the dearest agents and models, and where
// the month is heading.
func (s *Server) summary(c *rest.Request) error {
	p := c.Params("from", "to")
	span := usage.NewRange(p.Span(time.UTC, s.now(), rest.DaysBefore(agentDays)))
	if err := p.Err(); err != nil {
		return err
	}
	sum, err := s.usage.Summarize(c.Ctx(), c.Who.AccountID, span, s.now())
	if err != nil {
		return storeError(err, "summary")
	}
	before := span.Before()
	return c.Reply(summaryReply{
		From: usage.Time{Time: span.From}, To: usage.Time{Time: span.To}, Totals: newUsageReply(&sum.Totals),
		Previous: periodReply{usage.Time{Time: before.From}, usage.Time{Time: before.To}, newUsageReply(&sum.Previous)},
		Change: changeReply{
			CostUSD:      percentChange(&sum.Previous.CostUSD.Sum, &sum.Totals.CostUSD.Sum),
			Events:       percentChangeOf(sum.Previous.Events, sum.Totals.Events),
			Errors:       percentChangeOf(sum.Previous.Errors, sum.Totals.Errors),
			InputTokens:  percentChange(&sum.Previous.InputTokens, &sum.Totals.InputTokens),
			OutputTokens: percentChange(&sum.Previous.OutputTokens, &sum.Totals.OutputTokens),
		},
		TopAgents: newTopReplies(sum.TopAgents), TopModels: newTopReplies(sum.TopModels),
		Month: monthEndReply{
			Start: usage.Time{Time: sum.Month.Start}, End: usage.Time{Time: sum.Month.End},
			SpentUSD: sum.Month.Spent, ProjectedUSD: sum.Month.Projected,
		},
		CompleteUntil: sum.CompleteUntil,
	})
}

// newTopReplies keeps the order of the rows.
func newTopReplies(rows []usage.Row) []topReply {
	replies := make([]topReply, 0, len(rows))
	for i := range rows {
		row := &rows[i]
		replies = append(replies, topReply{row.Agent, (*groupName)(row.Model), (*groupName)(row.Provider), newUsageReply(&row.Measures)})
	}
	return replies
}

// percentChangeOf is percentChange for counts.
func percentChangeOf(before, after int64) *float64 {
	b, a := usage.NewSum(before), usage.NewSum(after)
	return percentChange(&b, &a)
}

// percentChange returns by how many per cent after is more than before, to one
// decimal. It is nil where there was nothing before. A share is no amount of money:
// it may be a float.
func percentChange(before, after *usage.Sum) *float64 {
	if before.Sign() == 0 {
		return nil
	}
	change := new(big.Rat).SetFrac(new(big.Int).Sub(after.Int(), before.Int()), before.Int())
	percent, _ := change.Mul(change, big.NewRat(100, 1)).Float64()
	rounded := math.Round(percent*10) / 10
	return &rounded
}
