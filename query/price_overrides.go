package query

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/problem"
	"github.com/outlayhq/outlay/schema/tariff"
)

// overrideReply is a price of an account's own.
type overrideReply struct {
	ID string `json:"id"`
	// Match is a model's name, or a pattern in which each * stands for any text.
	Match string `json:"match"`
	// Provider is null for a price that holds with any provider.
	Provider *string `json:"provider"`
	ratesReply
	// From is the first instant, null for a price since ever.
	From      usage.Time `json:"from"`
	CreatedAt usage.Time `json:"created_at"`
	// CreatedBy is null for the command line.
	CreatedBy *string `json:"created_by"`
}

func newOverrideReply(o *tariff.Override) overrideReply {
	r := &o.Rates
	reply := overrideReply{
		ID: o.ID.Text(tariff.Prefix), Match: o.Match, Provider: nonEmpty(o.Provider),
		ratesReply: ratesReply{r.Input, r.Output, r.CacheRead, r.CacheWrite, r.CacheWrite1h, r.Reasoning},
		From:       usage.Time{Time: o.From}, CreatedAt: usage.Time{Time: o.CreatedAt},
	}
	reply.CreatedBy = idText(o.CreatedBy, schema.UserPrefix)
	return reply
}

// overridePosition is the last price of a page.
type overridePosition struct {
	Match    string `json:"m"`
	Provider string `json:"p"`
	// From is in microseconds, those of the zero time for a price since ever.
	From int64 `json:"f"`
}

// overridePlace returns where a price stands in the list.
func overridePlace(o *tariff.Override) overridePosition {
	return overridePosition{o.Match, o.Provider, o.From.UnixMicro()}
}

// compare orders by bytes, which is the same on every database.
func (p overridePosition) compare(q overridePosition) int {
	return cmp.Or(cmp.Compare(p.Match, q.Match), cmp.Compare(p.Provider, q.Provider), cmp.Compare(p.From, q.From))
}

// listOverrides answers a page of the account's own prices, by match, provider and start.
func (s *Server) listOverrides(c *rest.Request) error {
	p := c.Params("limit", "cursor")
	limit, after := p.Limit(), rest.ReadCursor(c, p, func(*overridePosition) bool { return true })
	if err := p.Err(); err != nil {
		return err
	}
	// At most maxOverrides: they are all read, and the page is cut here.
	own, err := s.overrides(c)
	if err != nil {
		return storeError(err, "price override")
	}
	// The database may have another order of letters than compare.
	slices.SortFunc(own, func(a, b tariff.Override) int { return overridePlace(&a).compare(overridePlace(&b)) })
	own = slices.DeleteFunc(own, func(o tariff.Override) bool { return after != nil && overridePlace(&o).compare(*after) <= 0 })
	return rest.ReplyPage(c, p, limit, own, newOverrideReply, overridePlace)
}

// overrideRequest is a price as a client sets it. Amounts keep their JSON text, so that
// no float comes near them.
type overrideRequest struct {
	// Match and Provider are normalised as tracking normalises names.
	Match    string `json:"match"`
	Provider string `json:"provider"`
	// Rates are US dollars for a million tokens, up to six decimals. Input and output are required; the others fall back to them.
	Input        jsontext.Value `json:"input_usd_per_mtok"`
	Output       jsontext.Value `json:"output_usd_per_mtok"`
	CacheRead    jsontext.Value `json:"cache_read_usd_per_mtok"`
	CacheWrite   jsontext.Value `json:"cache_write_usd_per_mtok"`
	CacheWrite1h jsontext.Value `json:"cache_write_1h_usd_per_mtok"`
	Reasoning    jsontext.Value `json:"reasoning_usd_per_mtok"`
	// From is an RFC 3339 time or a date in UTC. Left out, the price holds since ever.
	From string `json:"from"`
}

// parse returns the price that is asked for, all of it but who asks.
func (r *overrideRequest) parse() (tariff.Override, error) {
	var faults schema.Faults
	o := tariff.Override{Override: price.Override{
		Match: schema.NormalName(strings.TrimSpace(r.Match)), Provider: schema.NormalName(strings.TrimSpace(r.Provider)),
	}}
	o.Rates = price.Rates{
		Input:        parseRate("input_usd_per_mtok", r.Input, &faults),
		Output:       parseRate("output_usd_per_mtok", r.Output, &faults),
		CacheRead:    parseRate("cache_read_usd_per_mtok", r.CacheRead, &faults),
		CacheWrite:   parseRate("cache_write_usd_per_mtok", r.CacheWrite, &faults),
		CacheWrite1h: parseRate("cache_write_1h_usd_per_mtok", r.CacheWrite1h, &faults),
		Reasoning:    parseRate("reasoning_usd_per_mtok", r.Reasoning, &faults),
	}
	o.From = parseFrom(r.From, &faults)
	// A rate that could not be read is nil now; that it is required would be a second message about one mistake.
	for _, fault := range o.Check() {
		if !faults.Has(fault.Field) {
			faults = append(faults, fault)
		}
	}
	return o, rest.Invalid(faults)
}

// parseRate reads a rate from its JSON text; nil is none.
func parseRate(field string, text jsontext.Value, faults *schema.Faults) *price.Rate {
	if kind := text.Kind(); kind == 0 || kind == 'n' {
		return nil
	}
	rate, err := price.ParseRate(string(text))
	if err != nil {
		faults.Add(field, "must be a plain number of US dollars for a million tokens, from 0 to 1000000, with at most six decimals")
		return nil
	}
	return &rate
}

// parseFrom reads the first instant of a price; the zero time is since ever.
func parseFrom(text string, faults *schema.Faults) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := rest.ParseTime(text, time.UTC)
	if first, end := usage.AllTime(); err != nil || t.Before(first) || !t.Before(end) {
		faults.Add("from", "must be a time as RFC 3339 writes it, such as 2026-01-31T00:00:00Z, or a date, between the years 2000 and 2200")
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// maxOverrides bounds what ingest looks through for an event that it has not seen the
// like of.
const maxOverrides = 500

var (
	errOverrideExists = problem.New(problem.Conflict,
		"There is a price for this match, provider and start already. Delete it first, or give the new one another from.")
	errTooManyOverrides = problem.New(problem.Conflict,
		"An account may have 500 prices of its own. Delete some, or say several models with one pattern.")
)

// createOverride gives the account a price of its own. What was priced before stays as
// it is.
func (s *Server) createOverride(c *rest.Request, request *overrideRequest) error {
	o, err := request.parse()
	if err != nil {
		return err
	}
	now := s.now().UTC().Truncate(time.Microsecond)
	o.ID, o.AccountID, o.CreatedAt, o.CreatedBy = schema.NewID(now), c.Who.AccountID, now, &c.Who.UserID
	// The reply is the detail of the audit log as well: it holds no secret.
	reply := newOverrideReply(&o)
	err = s.administer(c, "price_override.create", reply, func(ctx context.Context, tx pgx.Tx, _ *account.Store) (string, error) {
		store := tariff.NewStore(tx)
		own, err := store.OfAccount(ctx, c.Who.AccountID)
		if err != nil {
			return "", err
		}
		// Two requests at once may pass it together; the bound is for speed, and one more does not matter.
		if len(own) >= maxOverrides {
			return "", errTooManyOverrides
		}
		return reply.ID, store.Add(ctx, o)
	})
	if errors.Is(err, tariff.ErrExists) {
		return errOverrideExists
	}
	if err != nil {
		return err
	}
	return c.ReplyStatus(http.StatusCreated, reply)
}

// deleteOverride takes a price of the account's own away; the published one holds again.
func (s *Server) deleteOverride(c *rest.Request, id schema.ID) error {
	return storeError(s.remove(c, "price_override.delete", id.Text(tariff.Prefix), func(ctx context.Context, tx pgx.Tx) error {
		return tariff.NewStore(tx).Delete(ctx, c.Who.AccountID, id)
	}), "price override")
}
