package ingest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/ingest/decode"
	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/problem"
)

// checkBudget answers POST /v1/budgets/check: whether an event would be let
// through now. It records nothing and counts against no limit but its own.
func (s *Server) checkBudget(c *gin.Context) error {
	in, err := s.receive(c, expected{s.limitCheck, checkJSON, s.cfg.MaxBodyBytes})
	if err != nil {
		return err
	}
	defer in.close()
	r, err := decode.CheckFromJSON(in.text())
	if err != nil {
		return err
	}
	if err := mayTrack(&in.credential.Grant, r.Agent); err != nil {
		return err
	}
	e, err := s.estimate(r, in.credential.AccountID)
	if err != nil {
		return err
	}
	v, err := s.compare(c.Request.Context(), in.credential.AccountID, r.Agent, e)
	if err != nil {
		return err
	}
	reply(c.Writer, http.StatusOK, appendCheck(make([]byte, 0, 256), v, e))
	return nil
}

var errNoPrices = &problem.Problem{
	Code:       problem.Internal,
	Detail:     "The prices are not loaded yet. Ask again in a moment.",
	RetryAfter: time.Second,
}

// estimate is what a call would cost at most.
type estimate struct {
	cost schema.NanoUSD
	// known is false without tokens or without a price.
	known bool
	// unpriced says that there are tokens and no price.
	unpriced bool
}

func (s *Server) estimate(r decode.Check, account schema.ID) (estimate, error) {
	if !r.Usage.Given {
		return estimate{}, nil
	}
	book := s.prices(account)
	if book == nil {
		return estimate{}, errNoPrices
	}
	q, err := book.Quote(r.Provider, r.Model, s.now().UTC(), r.Usage)
	if errors.Is(err, price.ErrTooLarge) {
		return estimate{}, problem.FromFaults(schema.Faults{{
			Field:   "input_tokens",
			Message: "and max_output_tokens come to more than USD 1000000 for one event; check the counts",
		}})
	}
	if err != nil {
		return estimate{}, err
	}
	return estimate{
		cost:     schema.NanoUSD(q.CostNanoUSD),
		known:    q.Source == price.Calculated,
		unpriced: schema.CostSource(q.Source) == schema.CostUnpriced,
	}, nil
}

// verdict is what the caps of an agent allow.
type verdict struct {
	allowed bool
	// tightest is the cap with the least left, nil without any.
	tightest *lease.Standing
}

// compare compares an estimate with the cap of the agent and that of its account.
func (s *Server) compare(ctx context.Context, account schema.ID, agent string, e estimate) (verdict, error) {
	v := verdict{allowed: true}
	for _, scope := range [...]budget.Scope{{AccountID: account, Agent: agent}, {AccountID: account}} {
		standing, ok, err := s.caps.Standing(ctx, scope)
		if err != nil {
			return verdict{}, record.CapProblem(nil, err)
		}
		if !ok {
			continue
		}
		if standing.Remaining <= 0 || e.cost > standing.Remaining || e.unpriced && standing.Budget.OnUnpriced == budget.Deny {
			v.allowed = false
		}
		if v.tightest == nil || standing.Remaining < v.tightest.Remaining {
			v.tightest = &standing
		}
	}
	return v, nil
}

func appendCheck(dst []byte, v verdict, e estimate) []byte {
	dst = append(dst, `{"allowed":`...)
	dst = strconv.AppendBool(dst, v.allowed)
	dst = append(dst, `,"remaining_usd":`...)
	if v.tightest == nil {
		dst = append(dst, "null"...)
	} else {
		dst = v.tightest.Remaining.AppendText(dst)
	}
	if e.known {
		dst = e.cost.AppendText(append(dst, `,"estimate_usd":`...))
	}
	dst = append(dst, `,"budget":`...)
	if v.tightest == nil {
		return append(dst, "null}"...)
	}
	return append(appendBudget(dst, *v.tightest), '}')
}
