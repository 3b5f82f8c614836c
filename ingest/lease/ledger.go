package lease

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// ledger sums up refused events until they are written down.
type ledger struct {
	mu   sync.Mutex
	sums map[refusedKey]*refusedSum
}

type refusedKey struct {
	account                schema.ID
	agent, model, provider string
	bucket                 time.Time
}

type refusedSum struct {
	events              int64
	input, output, cost schema.Sum
}

// These bound memory while the database is away, and how much is written at a time. What
// does not fit is summed up without its model and provider; and when ever new agents are
// refused, by a cap of their account, without its agent either.
const (
	maxRefusedKeys   = 10_000
	maxRefusedAgents = 10_000
)

func newLedger() *ledger { return &ledger{sums: map[refusedKey]*refusedSum{}} }

func (l *ledger) add(e *schema.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := refusedKey{e.AccountID, e.Agent, e.Model, e.Provider, e.ReceivedAt.Truncate(budget.Bucket)}
	l.merge(k, &refusedSum{1, schema.SumOf(e.InputTokens), schema.SumOf(e.OutputTokens), schema.SumOf(e.Cost)})
}

func (l *ledger) merge(k refusedKey, s *refusedSum) {
	if l.sums[k] == nil && len(l.sums) >= maxRefusedKeys {
		k.model, k.provider = "", ""
	}
	if l.sums[k] == nil && len(l.sums) >= maxRefusedKeys+maxRefusedAgents {
		k.agent = ""
	}
	sum := l.sums[k]
	if sum == nil {
		// The texts of an event are parts of larger pieces of memory, so they are kept apart. The key
		// is set this once, since to set it again would take over the texts of the later event.
		k.agent, k.model, k.provider = strings.Clone(k.agent), strings.Clone(k.model), strings.Clone(k.provider)
		sum = new(refusedSum)
		l.sums[k] = sum
	}
	sum.events += s.events
	sum.input.AddSum(s.input)
	sum.output.AddSum(s.output)
	sum.cost.AddSum(s.cost)
}

func (l *ledger) take() map[refusedKey]*refusedSum {
	l.mu.Lock()
	defer l.mu.Unlock()
	sums := l.sums
	l.sums = map[refusedKey]*refusedSum{}
	return sums
}

func (l *ledger) putBack(sums map[refusedKey]*refusedSum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, s := range sums {
		l.merge(k, s)
	}
}

const addRefused = `
INSERT INTO refused_events AS r (account_id, agent, model, provider, bucket, events, input_tokens, output_tokens, cost_nano_usd)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::int8[], $7::text[]::numeric[], $8::text[]::numeric[], $9::text[]::numeric[])
ORDER BY 1, 2, 5, 3, 4
ON CONFLICT (account_id, agent, bucket, model, provider) DO UPDATE SET
  events = r.events + excluded.events, input_tokens = r.input_tokens + excluded.input_tokens,
  output_tokens = r.output_tokens + excluded.output_tokens, cost_nano_usd = r.cost_nano_usd + excluded.cost_nano_usd`

// writeRefused writes the sums down. A try without an answer is not repeated: the
// ledger is for people, and may rather miss a second of refusals than double it.
func (g *Gate) writeRefused(ctx context.Context) {
	sums := g.refused.take()
	if len(sums) == 0 {
		return
	}
	var (
		accounts                  []schema.ID
		agents, models, providers []string
		buckets                   []time.Time
		events                    []int64
		input, output, costs      []string
	)
	for k, s := range sums {
		accounts, agents, models, providers = append(accounts, k.account), append(agents, k.agent), append(models, k.model), append(providers, k.provider)
		buckets, events = append(buckets, k.bucket), append(events, s.events)
		input, output, costs = append(input, s.input.String()), append(output, s.output.String()), append(costs, s.cost.String())
	}
	ctx, cancel := context.WithTimeout(ctx, g.bank.timeout)
	defer cancel()
	conn, err := g.pool.Acquire(ctx)
	if err != nil {
		g.refused.putBack(sums)
		return
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, addRefused, accounts, agents, models, providers, buckets, events, input, output, costs); err != nil {
		g.metrics.call("refused", "failed")
		g.log.WarnContext(ctx, "refused events not written down", "rows", len(sums), "error", fmt.Errorf("write: %w", err))
		return
	}
	g.metrics.call("refused", "ok")
}
