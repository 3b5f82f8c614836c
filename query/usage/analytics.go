package usage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Question is what an analysis is asked.
type Question struct {
	// Bounds are the bounds of the buckets, as Buckets returns them.
	Bounds []time.Time
	// ByAgent, ByModel and ByProvider say what to group by.
	ByAgent, ByModel, ByProvider bool
	// Agent, Model and Provider filter when they are not nil.
	Agent, Model, Provider *string
	// Fill adds the buckets in which a group has no event.
	Fill bool
}

// Group names what a row is about. A part that the question does not group by
// is nil; an event without model or provider has the empty name.
type Group struct {
	Agent, Model, Provider *string
}

// Row is one bucket of one group. Slot counts the buckets from 1.
type Row struct {
	Slot int
	Group
	Measures
}

// Answer is what an analysis found. Rows are in the order of time, then of the
// group's names.
type Answer struct {
	Rows   []Row
	Totals Measures
	// CompleteUntil is the time up to which everything that was accepted is in
	// the answer; zero when that is not known.
	CompleteUntil Time
}

// usageColumns sums the measures of any of the usage relations.
const usageColumns = `
	sum(events)::bigint AS events, sum(errors)::bigint AS errors, sum(unpriced_events)::bigint AS unpriced_events,
	sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cache_read_tokens) AS cache_read_tokens,
	sum(cost_nano_usd) AS cost_usd,
	sum(latency_count)::bigint AS latency_count, sum(latency_sum_ms) AS latency_sum_ms,
	coalesce(max(latency_max_ms), 0) AS latency_max_ms, sum(latency_histogram) AS latencies`

const (
	analyticsHead = `
SELECT width_bucket(bucket, $4::timestamptz[]) AS slot,
	CASE WHEN $5 THEN agent END AS agent, CASE WHEN $7 THEN model END AS model, CASE WHEN $8 THEN provider END AS provider,` +
		usageColumns + `
FROM `
	analyticsTail = `
WHERE account_id = $1 AND bucket >= $2 AND bucket < $3
	AND ($6::text IS NULL OR agent = $6)
	AND ($9::text IS NULL OR model = $9)
	AND ($10::text IS NULL OR provider = $10)
GROUP BY 1, 2, 3, 4
LIMIT $11`

	selectDaily    = analyticsHead + `usage_daily` + analyticsTail
	selectHourly   = analyticsHead + `usage_hourly` + analyticsTail
	selectQuarters = analyticsHead + `usage_15m` + analyticsTail

	// selectDaysAndEdges takes whole days from the daily relation, and what is left
	// before and after them from the quarter hours, so that a month costs some
	// thirty rows for each group and any range is exact.
	selectDaysAndEdges = analyticsHead + `(
	SELECT * FROM usage_daily WHERE account_id = $1 AND bucket >= $12 AND bucket < $13
	UNION ALL
	SELECT * FROM usage_15m WHERE account_id = $1 AND bucket >= $2 AND bucket < $12
	UNION ALL
	SELECT * FROM usage_15m WHERE account_id = $1 AND bucket >= $13 AND bucket < $3
) AS days_and_edges` + analyticsTail
)

// Where no model or provider is asked for, days are taken from the relation that has a
// row for each agent.
const (
	agentsHead = `
SELECT width_bucket(bucket, $4::timestamptz[]) AS slot,
	CASE WHEN $5 THEN agent END AS agent, NULL::text AS model, NULL::text AS provider,` + usageColumns + `
FROM `
	agentsTail = `
WHERE account_id = $1 AND bucket >= $2 AND bucket < $3 AND ($6::text IS NULL OR agent = $6)
GROUP BY 1, 2
LIMIT $7`

	selectDailyOfAgents = agentsHead + `usage_daily_agents` + agentsTail

	// selectAgentDays has nothing to add up: each row of the relation is one of the answer.
	selectAgentDays = `
SELECT width_bucket(bucket, $4::timestamptz[]) AS slot, agent, NULL::text AS model, NULL::text AS provider, events, errors, unpriced_events,
	input_tokens, output_tokens, cache_read_tokens, cost_nano_usd AS cost_usd, latency_count, latency_sum_ms,
	coalesce(latency_max_ms, 0) AS latency_max_ms, latency_histogram AS latencies
FROM usage_daily_agents
WHERE account_id = $1 AND bucket >= $2 AND bucket < $3 AND $5 AND ($6::text IS NULL OR agent = $6)
LIMIT $7`

	measureColumns = `events, errors, unpriced_events, input_tokens, output_tokens, cache_read_tokens, cost_nano_usd,
		latency_count, latency_sum_ms, latency_max_ms, latency_histogram`

	selectDaysAndEdgesOfAgents = agentsHead + `(
	SELECT account_id, bucket, agent, ` + measureColumns + ` FROM usage_daily_agents WHERE account_id = $1 AND bucket >= $8 AND bucket < $9
	UNION ALL
	SELECT account_id, bucket, agent, ` + measureColumns + ` FROM usage_15m WHERE account_id = $1 AND bucket >= $2 AND bucket < $8
	UNION ALL
	SELECT account_id, bucket, agent, ` + measureColumns + ` FROM usage_15m WHERE account_id = $1 AND bucket >= $9 AND bucket < $3
) AS days_and_edges` + agentsTail
)

// Analyse adds up the usage of an account. It returns ErrTooManyRows when the
// answer would have more than MaxBuckets rows.
func (s *Store) Analyse(ctx context.Context, accountID schema.ID, q *Question) (Answer, error) {
	var answer Answer
	err := s.atOnce(ctx, accountID, func(b *pgx.Batch) { queueAnalysis(b, accountID, q, &answer) })
	if err != nil {
		return Answer{}, fmt.Errorf("analyse usage: %w", err)
	}
	return answer, nil
}

// queueAnalysis adds what answers q to a batch.
func queueAnalysis(b *pgx.Batch, accountID schema.ID, q *Question, answer *Answer) {
	statement, args := q.statement(accountID)
	b.Queue(statement, args...).Query(func(rows pgx.Rows) (err error) {
		if answer.Rows, err = collect(rows); err != nil {
			return err
		}
		return answer.complete(q)
	})
	queueCompleteUntil(b, &answer.CompleteUntil)
}

// complete adds the totals and what is to be filled in, and puts the rows in order.
func (a *Answer) complete(q *Question) error {
	for i := range a.Rows {
		a.Totals.Add(&a.Rows[i].Measures)
	}
	if q.Fill {
		a.Rows = fill(a.Rows, q)
	}
	if len(a.Rows) > MaxBuckets {
		return ErrTooManyRows
	}
	a.Rows = sorted(a.Rows)
	return nil
}

// collect reads the rows of an analysis.
func collect(rows pgx.Rows) ([]Row, error) {
	defer rows.Close()
	var reader rowReader
	var pieces [][]Row // A row is large, so they are moved once, at the end.
	var piece []Row
	for rows.Next() {
		if len(piece) == cap(piece) {
			pieces = append(pieces, piece)
			piece = make([]Row, 0, min(max(8, 2*cap(piece)), maxPiece))
		}
		piece = piece[:len(piece)+1]
		if err := reader.read(rows, &piece[len(piece)-1]); err != nil {
			return nil, err
		}
	}
	return slices.Concat(append(pieces, piece)...), rows.Err()
}

// maxPiece is how many rows a piece of memory has at most.
const maxPiece = 512

// sorted returns rows in order. What is compared is one number for each row.
func sorted(rows []Row) []Row {
	agents := ranks(rows, func(r *Row) *string { return r.Agent })
	models := ranks(rows, func(r *Row) *string { return r.Model })
	providers := ranks(rows, func(r *Row) *string { return r.Provider })
	type placed struct {
		key uint64
		at  int
	}
	places := make([]placed, len(rows))
	for i := range rows {
		r := &rows[i]
		key := uint64(r.Slot)
		for _, rank := range [...]uint64{agents[name(r.Agent)], models[name(r.Model)], providers[name(r.Provider)]} {
			key = key<<rankBits | rank
		}
		places[i] = placed{key, i}
	}
	slices.SortFunc(places, func(a, b placed) int { return cmp.Compare(a.key, b.key) })
	inOrder := make([]Row, len(rows))
	for i, place := range places {
		inOrder[i] = rows[place.at]
	}
	return inOrder
}

// rankBits hold the number of a name: there are no more than rows, MaxBuckets at most. What three of them leave of 64 is for the
// bucket, of which there may be more.
const rankBits = 15

// ranks numbers the names of one part of the groups in their order; none is 0.
func ranks(rows []Row, part func(*Row) *string) map[string]uint64 {
	found := map[string]uint64{}
	for i := range rows {
		if text := part(&rows[i]); text != nil {
			found[*text] = 0
		}
	}
	for i, text := range slices.Sorted(maps.Keys(found)) {
		found[text] = uint64(i)
	}
	return found
}

// statement chooses the coarsest relations whose buckets never straddle a bound.
func (q *Question) statement(accountID schema.ID) (statement string, args []any) {
	r := Range{From: q.Bounds[0], To: q.Bounds[len(q.Bounds)-1]}
	if q.ofAgents() {
		return q.agentStatement(accountID, r)
	}
	args = []any{
		accountID, r.From, r.To, q.Bounds, q.ByAgent, q.Agent, q.ByModel, q.ByProvider, q.Model, q.Provider, MaxBuckets + 1,
	}
	switch {
	case aligned(q.Bounds, day):
		return selectDaily, args
	case aligned(q.Bounds[1:len(q.Bounds)-1], day):
		from, to := r.days()
		return selectDaysAndEdges, append(args, from, to)
	case aligned(q.Bounds, time.Hour):
		return selectHourly, args
	}
	return selectQuarters, args
}

// ofAgents reports whether the days of agents answer the question: whether it has whole
// days and asks for no model or provider.
func (q *Question) ofAgents() bool {
	return !q.ByModel && !q.ByProvider && q.Model == nil && q.Provider == nil && aligned(q.Bounds[1:len(q.Bounds)-1], day)
}

// agentStatement is statement of a question that the days of agents answer.
func (q *Question) agentStatement(accountID schema.ID, r Range) (statement string, args []any) {
	args = []any{accountID, r.From, r.To, q.Bounds, q.ByAgent, q.Agent, MaxBuckets + 1}
	switch {
	case !aligned(q.Bounds, day):
		from, to := r.days()
		return selectDaysAndEdgesOfAgents, append(args, from, to)
	case q.ByAgent && singleDays(q.Bounds):
		return selectAgentDays, args
	}
	return selectDailyOfAgents, args
}

// singleDays reports whether each bucket is a day long.
func singleDays(bounds []time.Time) bool {
	for i := range len(bounds) - 1 {
		if bounds[i+1].Sub(bounds[i]) != day {
			return false
		}
	}
	return true
}

// aligned reports whether all bounds are whole multiples of d in UTC.
func aligned(bounds []time.Time, d time.Duration) bool {
	return !slices.ContainsFunc(bounds, func(t time.Time) bool { return t.Unix()%int64(d/time.Second) != 0 })
}

// fill adds a row of zeros where a group has none in a bucket. Without grouping
// there is one group, even without an event. It stops one row after MaxBuckets.
func fill(rows []Row, q *Question) []Row {
	type names struct{ agent, model, provider string }
	type place struct {
		names
		slot int
	}
	namesOf := func(g Group) names { return names{name(g.Agent), name(g.Model), name(g.Provider)} }
	groups := map[names]Group{}
	for i := range rows {
		groups[namesOf(rows[i].Group)] = rows[i].Group
	}
	if !q.ByAgent && !q.ByModel && !q.ByProvider {
		groups[names{}] = Group{}
	}
	buckets := len(q.Bounds) - 1
	if len(rows) == len(groups)*buckets { // No group has two rows in a bucket.
		return rows
	}
	taken := make(map[place]bool, len(rows))
	for i := range rows {
		taken[place{namesOf(rows[i].Group), rows[i].Slot}] = true
	}
	for key, group := range groups {
		for slot := 1; slot <= buckets && len(rows) <= MaxBuckets; slot++ {
			if !taken[place{key, slot}] {
				rows = append(rows, Row{Slot: slot, Group: group})
			}
		}
	}
	return rows
}

func compareRows(a, b *Row) int {
	return cmp.Or(
		cmp.Compare(a.Slot, b.Slot),
		cmp.Compare(name(a.Agent), name(b.Agent)),
		cmp.Compare(name(a.Model), name(b.Model)),
		cmp.Compare(name(a.Provider), name(b.Provider)),
	)
}

func name(part *string) string {
	if part == nil {
		return ""
	}
	return *part
}

const selectCompleteUntil = `SELECT CASE WHEN complete_until > '-infinity' THEN complete_until END FROM usage_progress`

func queueCompleteUntil(b *pgx.Batch, until *Time) {
	b.Queue(selectCompleteUntil).QueryRow(func(row pgx.Row) error { return row.Scan(until) })
}
