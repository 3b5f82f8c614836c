package report

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/pgdb"
)

// selectPrices counts the events by the price that was applied to each, and those that have none recorded. Only the events
// themselves know it.
const selectPrices = `
SELECT cost_source IN ('calculated', 'client'), coalesce(price_id, ''), count(*), sum(cost_nano_usd), min(ts)
FROM events
WHERE account_id = $1 AND ts >= $2 AND ts < $3 AND ($4::text[] IS NULL OR agent = ANY ($4))
GROUP BY 1, 2`

// selectBreakdowns shows by which rates the first events of a price were priced.
const selectBreakdowns = `
SELECT cost_breakdown
FROM events
WHERE account_id = $1 AND ts >= $2 AND ts < $2::timestamptz + interval '1 hour' AND ts < $3 AND price_id = $4 AND cost_breakdown IS NOT NULL
ORDER BY ts, event_id
LIMIT 50`

// pricesTimeout bounds counting by price: an account may have more events than can be read one by one.
const pricesTimeout = 20 * time.Second

// prices reads which prices were applied, the one that most was paid by first, and of how many of the events that is not known.
func (rd *reader) prices(ctx context.Context, events int64) ([]Price, int64, error) {
	var prices []Price
	var known int64
	err := pgx.BeginFunc(ctx, rd.tx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d", pricesTimeout.Milliseconds())); err != nil {
			return err
		}
		var err error
		prices, known, err = rd.pricesApplied(ctx, tx)
		return err
	})
	if pgdb.SQLState(err) == pgdb.QueryCanceled {
		return nil, events, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("prices: %w", err)
	}
	slices.SortFunc(prices, func(a, b Price) int { return cmp.Or(b.Cost.cmp(&a.Cost), cmp.Compare(a.ID, b.ID)) })
	return prices, max(0, events-known), nil
}

// pricesApplied returns the prices, and how many events there were.
func (rd *reader) pricesApplied(ctx context.Context, tx pgx.Tx) (prices []Price, events int64, err error) {
	// first is the time of the first event of a price, near which its rates are looked for.
	type found struct {
		Price
		priced bool
		first  time.Time
	}
	rows, _ := tx.Query(ctx, selectPrices, rd.account, rd.from, rd.to, rd.agents)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f found, err error) {
		err = row.Scan(&f.priced, &f.ID, &f.Events, &f.Cost, &f.first)
		return f, err
	})
	if err != nil {
		return nil, 0, err
	}
	for _, f := range all {
		events += f.Events
		if !f.priced {
			continue
		}
		if f.ID != "" && len(all) <= maxPriceLines {
			if f.Rates, err = rd.rates(ctx, tx, f.ID, f.first); err != nil {
				return nil, 0, err
			}
		}
		prices = append(prices, f.Price)
	}
	return prices, events, nil
}

// rates collects the rates that events of a price name, each kind and tier once, in the order in which events list them.
func (rd *reader) rates(ctx context.Context, tx pgx.Tx, id string, first time.Time) ([]Rate, error) {
	rows, _ := tx.Query(ctx, selectBreakdowns, rd.account, first, rd.to, id)
	breakdowns, err := pgx.CollectRows(rows, pgx.RowTo[json.RawMessage])
	if err != nil {
		return nil, err
	}
	var rates []Rate
	for _, text := range breakdowns {
		var parts []struct {
			Kind, Tier string
			Rate       json.Number `json:"rate_usd_per_mtok"`
		}
		if json.Unmarshal(text, &parts) != nil {
			continue // What a client stored as a breakdown, if it could, is no rate of ours.
		}
		for _, p := range parts {
			rate := Rate{Kind: p.Kind, USDPerMillion: p.Rate.String(), Tier: p.Tier}
			if !slices.Contains(rates, rate) {
				rates = append(rates, rate)
			}
		}
	}
	slices.SortFunc(rates, func(a, b Rate) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Tier, b.Tier),
			cmp.Compare(a.USDPerMillion, b.USDPerMillion))
	})
	return rates, nil
}

// kinds are the kinds of tokens in the order in which people read them.
var kinds = []string{"input", "output", "cache_read", "cache_write", "cache_write_1h", "reasoning"}

// place orders rates: the usual tier first, then by kind.
func place(r Rate) int {
	at := slices.Index(kinds, r.Kind)
	if at < 0 {
		at = len(kinds)
	}
	if r.Tier != baseTier {
		at += len(kinds) + 1
	}
	return at
}

// baseTier is how events call the rates that hold without a long context.
const baseTier = "base"
