package query

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
)

// daily answers what was spent by day.
func (s *Server) daily(c *rest.Request) error {
	return s.analytics(c, usage.Day, func(last time.Time) time.Time { return last.AddDate(0, 0, -(30 - 1)) })
}

// hourly answers what was spent by hour.
func (s *Server) hourly(c *rest.Request) error {
	return s.analytics(c, usage.Hour, func(last time.Time) time.Time { return last.Add(-(48 - 1) * time.Hour) })
}

// analyticsReply is the response of both.
type analyticsReply struct {
	// Data has at most 10 000 rows, by time and then by what is grouped by. Empty buckets are filled in unless
	// fill=false.
	Data []bucketReply `json:"data"`
	// Totals is the sum of all buckets.
	Totals usageReply `json:"totals"`
	// CompleteUntil is the time up to which everything accepted is in the answer,
	// null when that is not known.
	CompleteUntil usage.Time `json:"complete_until"`
	// From and To are the range as it was widened to whole buckets.
	From     usage.Time `json:"from"`
	To       usage.Time `json:"to"`
	Timezone string     `json:"timezone"`
}

// bucketReply is one bucket of one group. A field that is not grouped by is left out; one that is may be null, for
// events without a model.
type bucketReply struct {
	Bucket   usage.Time `json:"bucket"`
	Agent    *string    `json:"agent,omitempty"`
	Model    *groupName `json:"model,omitempty"`
	Provider *groupName `json:"provider,omitempty"`
	usageReply
}

// groupName is a name to group by; the empty one is null.
type groupName string

// MarshalJSON is needed because omitempty leaves out a nil pointer, where null is wanted for the empty name.
func (n groupName) MarshalJSON() ([]byte, error) { return json.Marshal(nonEmpty(string(n))) }

// analytics answers buckets of one unit. A from that is not given is what back
// makes of the last moment before to.
func (s *Server) analytics(c *rest.Request, unit usage.Unit, back func(last time.Time) time.Time) error {
	// Days begin at midnight of timezone, of which each zone has 23, 24 or 25 hours in some.
	p := c.Params("from", "to", "group_by", "agent", "model", "provider", "timezone", "fill", "format")
	loc := p.Zone()
	from, to := p.Span(loc, s.now(), func(to time.Time) time.Time { return back(to.Add(-time.Microsecond).In(loc)) })
	q := usage.Question{
		Agent: p.Text("agent"), Model: p.Text("model"), Provider: p.Text("provider"),
		Fill: p.Flag("fill", true),
	}
	groupBy(p, &q)
	format := p.OneOf("format", "json", "json", "csv")
	if err := p.Err(); err != nil {
		return err
	}
	var err error
	// The bounds are made here and not in SQL, so that the answer and the statement have the same ones.
	if q.Bounds, err = usage.Buckets(unit, from, to, loc); err != nil {
		return storeError(err, "bucket")
	}
	answer, err := s.usage.Analyse(c.Ctx(), c.Who.AccountID, &q)
	if err != nil {
		return storeError(err, "bucket")
	}
	// CSV has the same rows as JSON. Totals and complete_until are left to JSON.
	if format == "csv" {
		return replyAnalyticsCSV(c, &q, &answer)
	}
	buckets := make([]bucketReply, len(answer.Rows))
	for i := range buckets {
		buckets[i] = newBucketReply(&q, &answer.Rows[i])
	}
	return c.Reply(analyticsReply{
		Data:          buckets,
		Totals:        newUsageReply(&answer.Totals),
		CompleteUntil: answer.CompleteUntil,
		From:          usage.Time{Time: q.Bounds[0]},
		To:            usage.Time{Time: q.Bounds[len(q.Bounds)-1]},
		Timezone:      loc.String(),
	})
}

// groupBy reads group_by: names with commas between them.
func groupBy(p *rest.Params, q *usage.Question) {
	value := p.Values.Get("group_by")
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
			p.Faults.Add("group_by", "must be any of agent, model, provider, with commas between")
			return
		}
	}
}

// newBucketReply makes a row of the database a bucket. Slots count from 1.
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
func replyAnalyticsCSV(c *rest.Request, q *usage.Question, answer *usage.Answer) error {
	header := slices.Concat([]string{"bucket"}, groupHeader(q), []string{
		"events", "errors", "unpriced_events", "input_tokens", "output_tokens", "cache_read_tokens", "cost_usd",
		"avg_latency_ms", "p50_latency_ms", "p95_latency_ms", "p99_latency_ms", "max_latency_ms",
	})
	w := rest.NewCSV(c, "usage.csv", header)
	for i := range answer.Rows {
		row := &answer.Rows[i]
		w.Text(usage.Time{Time: q.Bounds[row.Slot-1]}.String())
		w.Group(row.Agent, row.Model, row.Provider)
		w.Number(row.Events, row.Errors, row.UnpricedEvents)
		w.Sum(&row.InputTokens, &row.OutputTokens, &row.CacheReadTokens)
		w.Text(row.CostUSD.String())
		latency := row.Latency()
		w.Optional(latency.Avg, latency.P50, latency.P95, latency.P99, row.MaxLatencyMS())
		w.EndLine()
	}
	return w.Send()
}

// groupHeader returns the columns of the groups, in the order in which CSV.Group writes them.
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
