package query

import (
	"cmp"
	"slices"
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/tariff"
)

// priceReply is a price in force.
type priceReply struct {
	// Provider is null for a price that holds with any.
	Provider *string `json:"provider"`
	// Model is the catalogue's name; Rule says how a client's name came to it.
	Model string `json:"model"`
	// PriceID is what events show that were charged by it.
	PriceID string `json:"price_id"`
	// Source is override for a price of the account, else catalogue.
	Source string `json:"source"`
	Rule   string `json:"rule"`
	// Rates are by length of the input; the last one whose Above is exceeded holds for all tokens of the call.
	Rates []stepReply `json:"rates"`
}

// stepReply holds the rates of a call with more input than a number of tokens.
type stepReply struct {
	Above int64 `json:"above_input_tokens"`
	ratesReply
}

// ratesReply are prices in US dollars for a million tokens; null where there is none.
type ratesReply struct {
	Input        *price.Rate `json:"input_usd_per_mtok"`
	Output       *price.Rate `json:"output_usd_per_mtok"`
	CacheRead    *price.Rate `json:"cache_read_usd_per_mtok"`
	CacheWrite   *price.Rate `json:"cache_write_usd_per_mtok"`
	CacheWrite1h *price.Rate `json:"cache_write_1h_usd_per_mtok"`
	Reasoning    *price.Rate `json:"reasoning_usd_per_mtok"`
}

// newPriceReply writes out an entry of the book.
func newPriceReply(e *price.Entry) priceReply {
	reply := priceReply{Provider: nonEmpty(e.Provider), Model: e.Model, PriceID: e.PriceID, Source: "catalogue", Rule: e.Rule}
	if e.Own {
		reply.Source = "override"
	}
	for _, step := range e.Steps {
		r := &step.Rates
		reply.Rates = append(reply.Rates, stepReply{step.Above, ratesReply{
			r[price.Input], r[price.Output], r[price.CacheRead], r[price.CacheWrite], r[price.CacheWrite1h], r[price.Reasoning],
		}})
	}
	return reply
}

// pricesReply is a page of prices and the time they are of.
type pricesReply struct {
	At usage.Time `json:"at"`
	rest.List[priceReply]
}

// pricePosition is the last price of a page, and the time that the first page asked for.
type pricePosition struct {
	Micros   int64  `json:"t"`
	Provider string `json:"p"`
	Model    string `json:"m"`
}

// valid bounds the time; any name is compared with those of the book and nothing else.
func (p *pricePosition) valid() bool {
	first, end := usage.AllTime()
	at := time.UnixMicro(p.Micros)
	return !at.Before(first) && !at.After(end)
}

// compare says where an entry lies from the position.
func (p *pricePosition) compare(e price.Entry) int {
	return cmp.Or(cmp.Compare(e.Provider, p.Provider), cmp.Compare(e.Model, p.Model))
}

// listPrices answers what tokens cost the account: of one model as a client would name
// it, or of all of the catalogue.
func (s *Server) listPrices(c *rest.Request) error {
	p := c.Params("model", "provider", "at", "limit", "cursor")
	at, limit := p.Time("at", time.UTC, s.now().UTC().Truncate(time.Microsecond)), p.Limit()
	model, provider := p.Text("model"), p.Text("provider")
	after := rest.ReadCursor(c, p, (*pricePosition).valid)
	if err := p.Err(); err != nil {
		return err
	}
	if after != nil {
		// Pages are of one time, also when prices change between them.
		at = time.UnixMicro(after.Micros)
	}
	book, err := s.book(c)
	if err != nil {
		return err
	}
	reply := pricesReply{At: usage.Time{Time: at}, List: rest.List[priceReply]{Data: []priceReply{}}}
	// One model is looked up as ingest does it, by patterns and aliases too, and not in the list.
	if model != nil {
		if e, ok := book.Find(valueOr(provider, ""), *model, at); ok {
			reply.Data = append(reply.Data, newPriceReply(&e))
		}
		return c.Reply(reply)
	}
	// The book is in memory, sorted by provider and model.
	entries := book.Entries(valueOr(provider, ""), at)
	if after != nil {
		start := slices.IndexFunc(entries, func(e price.Entry) bool { return after.compare(e) > 0 })
		if start < 0 {
			start = len(entries)
		}
		entries = entries[start:]
	}
	reply.List, err = rest.PageOf(c, p, limit, entries, newPriceReply,
		func(e *price.Entry) pricePosition { return pricePosition{at.UnixMicro(), e.Provider, e.Model} })
	if err != nil {
		return err
	}
	return c.Reply(reply)
}

// valueOr returns *text, or otherwise for nil.
func valueOr(text *string, otherwise string) string {
	if text == nil {
		return otherwise
	}
	return *text
}

// book is what the account is charged by.
func (s *Server) book(c *rest.Request) (*price.Book, error) {
	own, err := s.overrides(c)
	if err != nil {
		return nil, err
	}
	prices := make([]price.Override, len(own))
	for i := range own {
		prices[i] = own[i].Override
	}
	// With copies only what differs: the book of all accounts is shared.
	return s.prices().With(prices), nil
}

// overrides are the account's own prices.
func (s *Server) overrides(c *rest.Request) ([]tariff.Override, error) {
	return tariff.NewStore(s.usage.Once(c.Who.AccountID)).OfAccount(c.Ctx(), c.Who.AccountID)
}
