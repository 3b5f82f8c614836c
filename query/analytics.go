package query

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/outlayhq/outlay/query/usage"
)

// daily answers what was spent by day.
func (s *Server) daily(c *request) error {
	return s.analytics(c, usage.Day, func(last time.Time) time.Time { return last.AddDate(0, 0, -(30 - 1)) })
}

// hourly answers what was spent by hour.
func (s *Server) hourly(c *request) error {
	return s.analytics(c, usage.Hour, func(last time.Time) time.Time { return last.Add(-(48 - 1) * time.Hour) })
}

// analyticsReply is the response of both.
type analyticsReply struct {
	Data   []bucketReply `json:"data"`
	Totals usageReply    `json:"totals"`
	// CompleteUntil is the time up to which everything accepted is in the answer,
	// null when that is not known.
	CompleteUntil usage.Time `json:"complete_until"`
	// From and To are the range as it was widened to whole buckets.
	From     usage.Time `json:"from"`
	To       usage.Time `json:"to"`
	Timezone string     `json:"timezone"`
}

type bucketReply struct {
	Bucket   usage.Time `json:"bucket"`
	Agent    *string    `json:"agent,omitempty"`
	Model    *groupName `json:"model,omitempty"`
	Provider *groupName `json:"provider,omitempty"`
	usageReply
}

// groupName is a name to group by; the empty one is null.
type groupName string

func (n groupName) MarshalJSON() ([]byte, error) { return json.Marshal(nonEmpty(string(n))) }

// analytics answers buckets of one unit. A from that is not given is what back
// makes of the last moment before to.
func (s *Server) analytics(c *request, unit usage.Unit, back func(last time.Time) time.Time) error {
	p := c.params("from", "to", "group_by", "agent", "model", "provider", "timezone", "fill", "format")
	loc := p.zone()
	from, to := p.span(loc, s.now(), func(to time.Time) time.Time { return back(to.Add(-time.Microsecond).In(loc)) })
	q := usage.Question{
		Agent: p.text("agent"), Model: p.text("model"), Provider: p.text("provider"),
		Fill: p.flag("fill", true),
	}
	p.groupBy(&q)
	format := p.oneOf("format", "json", "json", "csv")
	if err := p.err(); err != nil {
		return err
	}
	var err error
	if q.Bounds, err = usage.Buckets(unit, from, to, loc); err != nil {
		return storeError(err, "bucket")
	}
	answer, err := s.usage.Analyse(c.ctx(), c.who.AccountID, &q)
	if err != nil {
		return storeError(err, "bucket")
	}
	if format == "csv" {
		return c.replyAnalyticsCSV(&q, &answer)
	}
	buckets := make([]bucketReply, len(answer.Rows))
	for i := range buckets {
		buckets[i] = newBucketReply(&q, &answer.Rows[i])
	}
	return c.reply(analyticsReply{
		Data:          buckets,
		Totals:        newUsageReply(&answer.Totals),
		CompleteUntil: answer.CompleteUntil,
		From:          usage.Time{Time: q.Bounds[0]},
		To:            usage.Time{Time: q.Bounds[len(q.Bounds)-1]},
		Timezone:      loc.String(),
	})
}

// groupBy reads group_by: names with commas between them.
func (p *params) groupBy(q *usage.Question) {
	value := p.values.Get("group_by")
	if value == "" {
		return
	}
	for part := range strings.SplitSeq(value, ",") {
		switch strings.TrimSpace(part) {
		case "agent":
			q.ByAgent = true
		case "model":
			q.ByModel = true
		case "provider":
			q.ByProvider = true
		default:
			p.faults.Add("group_by", "must be any of agent, model, provider, with commas between")
			return
		}
	}
}

func newBucketReply(q *usage.Question, row *usage.Row) bucketReply {
	return bucketReply{
		Bucket:     usage.Time{Time: q.Bounds[row.Slot-1]},
		Agent:      row.Agent,
		Model:      (*groupName)(row.Model),
		Provider:   (*groupName)(row.Provider),
		usageReply: newUsageReply(&row.Measures),
	}
}

// replyAnalyticsCSV answers the rows as CSV: the bucket, the groups asked for, the
// measures. There is no line of totals, which a spreadsheet would add up again.
func (c *request) replyAnalyticsCSV(q *usage.Question, answer *usage.Answer) error {
	header := slices.Concat([]string{"bucket"}, groupHeader(q), []string{
		"events", "errors", "unpriced_events", "input_tokens", "output_tokens", "cache_read_tokens", "cost_usd",
		"avg_latency_ms", "p50_latency_ms", "p95_latency_ms", "p99_latency_ms", "max_latency_ms",
	})
	w := newCSV(c, "usage.csv", header)
	for i := range answer.Rows {
		row := &answer.Rows[i]
		w.text(usage.Time{Time: q.Bounds[row.Slot-1]}.String())
		w.group(row.Agent, row.Model, row.Provider)
		w.number(row.Events, row.Errors, row.UnpricedEvents)
		w.sum(&row.InputTokens, &row.OutputTokens, &row.CacheReadTokens)
		w.text(row.CostUSD.String())
		latency := row.Latency()
		w.optional(latency.Avg, latency.P50, latency.P95, latency.P99, row.MaxLatencyMS())
		w.endLine()
	}
	return w.send()
}

func groupHeader(q *usage.Question) (names []string) {
	if q.ByAgent {
		names = append(names, "agent")
	}
	if q.ByModel {
		names = append(names, "model")
	}
	if q.ByProvider {
		names = append(names, "provider")
	}
	return names
}
