package alerting

import (
	"context"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// sum is what arrived in a window of one model for one agent.
type sum struct {
	// Agent, Provider and Model are empty where the query adds them up.
	Agent, Provider, Model    string
	Events, Errors, Unpriced  float64
	InputTokens, OutputTokens float64
	// CostNanoUSD is a float like the rest: thresholds and baselines are compared, not booked.
	CostNanoUSD  float64
	LatencyP95MS float64 // Negative where it is not known.
	// Hour is the start of the hour for sums of the past, of the window for others.
	Hour time.Time
}

// measures are the columns of sum after its names. A percentile does not add up, so
// it is asked for where it is needed only.
const measures = `
  sum(events)::float8 AS events, sum(errors)::float8 AS errors, sum(unpriced_events)::float8 AS unpriced,
  sum(input_tokens)::float8 AS input_tokens, sum(output_tokens)::float8 AS output_tokens,
  sum(cost_nano_usd)::float8 AS cost_nano_usd`

// noPercentile stands for the column where the percentile is not needed.
const noPercentile = `, 0::float8 AS latency_p95_ms`

// percentile is -1 where no event has a latency.
const percentile = `, coalesce(latency_percentile(sum(latency_histogram), 9007199254740991, 95), -1)::float8 AS latency_p95_ms`

// A window is a few hours at most, of which arrivals has rows by the minute or by the quarter hour.
const selectSums = `
SELECT agent, provider, model, $2::timestamptz AS hour,` + measures + noPercentile + `
FROM arrivals WHERE account_id = $1 AND bucket >= $2 AND bucket < $3
GROUP BY agent, provider, model`

// sums reads what arrived in a window. All rules of the account with that window share it.
func (w *Evaluator) sums(ctx context.Context, accountID schema.ID, from, to time.Time) ([]sum, error) {
	return pgdb.Rows[sum](ctx, w.pool, "read sums", selectSums, accountID, from, to)
}

// filtered are the conditions of a rule that narrow what it looks at.
const filtered = `
  AND ($4::text IS NULL OR a.agent = $4) AND ($5::text IS NULL OR a.model = $5) AND ($6::text IS NULL OR a.provider = $6)`

// $7 asks for a row for each agent; percentiles of several agents cannot be made of theirs.
const selectLatencies = `
SELECT CASE WHEN $7 THEN agent ELSE '' END AS agent, '' AS provider, '' AS model, $2::timestamptz AS hour,` + measures + percentile + `
FROM arrivals a WHERE account_id = $1 AND bucket >= $2 AND bucket < $3` + filtered + `
GROUP BY 1`

// latencies reads the percentile of a rule in a window, for all agents as one or for
// each.
func (w *Evaluator) latencies(ctx context.Context, r *alert.Rule, from, to time.Time) ([]sum, error) {
	return pgdb.Rows[sum](ctx, w.pool, "read latencies", selectLatencies, r.AccountID, from, to, r.Agent, r.Model, r.Provider,
		r.Condition == alert.Anomaly)
}

// Rows that are older than a day are by the hour already; younger ones are added up to hours.
const selectPast = `
SELECT agent, '' AS provider, '' AS model, date_bin('1 hour', bucket, timestamptz '2000-01-01 00:00:00+00') AS hour,` + measures

// The weeks that are compared with are asked for at once.
const fromPast = `
FROM unnest($2::timestamptz[], $3::timestamptz[]) AS q (start, finish)
JOIN arrivals a ON a.account_id = $1 AND a.bucket >= q.start AND a.bucket < q.finish` + filtered + `
GROUP BY 1, 4`

const (
	selectPastSums      = selectPast + noPercentile + fromPast
	selectPastLatencies = selectPast + percentile + fromPast
)

// past reads the hours that a window of a rule is compared with: the same hours of the
// weeks before, with one more on either side.
func (w *Evaluator) past(ctx context.Context, r *alert.Rule, from, to time.Time) (map[string]hours, error) {
	var starts, ends []time.Time
	for back := 1; back <= historyWeeks; back++ {
		by := -time.Duration(back) * week
		starts = append(starts, from.Add(by-time.Hour).Truncate(time.Hour))
		ends = append(ends, to.Add(by+2*time.Hour).Truncate(time.Hour))
	}
	// Percentiles cost more to read, and no other metric needs them.
	question := selectPastSums
	if r.Metric == alert.LatencyP95 {
		question = selectPastLatencies
	}
	found, err := pgdb.Rows[sum](ctx, w.pool, "read the past", question, r.AccountID, starts, ends, r.Agent, r.Model, r.Provider)
	if err != nil {
		return nil, err
	}
	past := map[string]hours{}
	for i := range found {
		s := &found[i]
		if past[s.Agent] == nil {
			past[s.Agent] = hours{}
		}
		past[s.Agent][s.Hour.Unix()] = s.tally(r.Metric)
	}
	return past, nil
}

// tally picks what a metric is made of.
func (s *sum) tally(m alert.Metric) tally {
	t := tally{den: s.Events, events: s.Events}
	switch m {
	case alert.Cost:
		t.num = s.CostNanoUSD
	case alert.Events:
		t.num = s.Events
	case alert.Errors, alert.ErrorRate:
		t.num = s.Errors
	case alert.InputTokens:
		t.num = s.InputTokens
	case alert.OutputTokens:
		t.num = s.OutputTokens
	case alert.Unpriced:
		t.num = s.Unpriced
	case alert.LatencyP95:
		if s.LatencyP95MS < 0 {
			t.den = 0
			break
		}
		// Over several hours the percentile counts by its events.
		t.num = s.LatencyP95MS * s.Events
	case alert.BudgetUsed:
		panic("BUG: a cap is not evaluated by sums")
	}
	return t
}

// matches reports whether a rule looks at s.
func (s *sum) matches(r *alert.Rule) bool {
	return (r.Agent == nil || *r.Agent == s.Agent) && (r.Model == nil || *r.Model == s.Model) &&
		(r.Provider == nil || *r.Provider == s.Provider)
}

// measure returns what a rule sees of sums: one for all, or for an anomaly one for each
// agent, those included that are known from the past only.
func measure(r *alert.Rule, sums []sum, past map[string]hours) []measurement {
	// Agents that were there in the past and did nothing now have a sum of 0, which may be too low.
	total := map[string]*tally{}
	for agent := range past {
		total[agent] = &tally{}
	}
	if r.Condition == alert.Above {
		total[scopeOf(r)] = &tally{}
	}
	for i := range sums {
		s, scope := &sums[i], scopeOf(r)
		if r.Condition == alert.Anomaly {
			scope = s.Agent
		}
		// Latencies come filtered and under no name of a model.
		if r.Metric != alert.LatencyP95 && !s.matches(r) {
			continue
		}
		if total[scope] == nil {
			total[scope] = &tally{}
		}
		total[scope].add(s.tally(r.Metric), 1)
	}
	list := make([]measurement, 0, len(total))
	for scope, t := range total {
		value, known := valueOf(r.Metric, *t)
		list = append(list, measurement{scope: scope, value: value, known: known, events: t.events})
	}
	return list
}

// scopeOf is the scope of a rule that takes everything it looks at as one.
func scopeOf(r *alert.Rule) string {
	if r.Agent == nil {
		return ""
	}
	return *r.Agent
}
