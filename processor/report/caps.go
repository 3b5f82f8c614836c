package report

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// The account's own cap has the empty name, stands first, and is shown whatever the report is about.
const selectCaps = `
SELECT b.agent, b.period, b.limit_nano_usd, (
	SELECT count(*) FROM budget_resets r
	WHERE r.account_id = b.account_id AND r.agent = b.agent AND r.at >= $2 AND r.at < $3)
FROM budgets b
WHERE b.account_id = $1 AND ($4::text[] IS NULL OR b.agent = '' OR b.agent = ANY ($4))
ORDER BY b.agent COLLATE "C"`

// caps reads the caps that are set, each with the figures of its agent in the period.
func (rd *reader) caps(ctx context.Context, s *Statement) ([]Cap, error) {
	account := &Line{Figures: s.Totals}
	if rd.agents != nil {
		// The account's cap is about all agents, also when the report is about some.
		all := *rd
		all.agents = nil
		var err error
		if account.Figures, err = all.whole(ctx, rd.from, rd.to); err != nil {
			return nil, err
		}
	}
	// An agent that did nothing has no line, and its cap is shown with zeros.
	lines := map[string]*Line{"": account}
	for i := range s.ByAgent {
		lines[s.ByAgent[i].Agent] = &s.ByAgent[i]
	}
	rows, _ := rd.tx.Query(ctx, selectCaps, rd.account, rd.from, rd.to, rd.agents)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Cap, error) {
		var c Cap
		var limit int64
		if err := row.Scan(&c.Agent, &c.Period, &limit, &c.Resets); err != nil {
			return Cap{}, err
		}
		c.Limit = amountOf(limit)
		if l := lines[c.Agent]; l != nil {
			c.Spent, c.Refused, c.RefusedCost = l.Cost, l.Refused, l.RefusedCost
		}
		return c, nil
	})
}
