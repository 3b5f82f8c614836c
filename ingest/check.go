package ingest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/problem"
)

// checkRequest is a call of a model that an agent thinks of making.
type checkRequest struct {
	agent, model, provider optionalText
	input, maxOutput       optionalCount
}

// checkBudget answers POST /v1/budgets/check: whether an event would be let
// through now. It records nothing and takes nothing of any limit but its own.
func (s *Server) checkBudget(c *gin.Context) error {
	if err := s.room.enter(); err != nil {
		return err
	}
	defer s.room.leave()
	credential, err := s.authenticate(c)
	if err != nil {
		return err
	}
	if err := s.limitCheck(c, credential); err != nil {
		return err
	}
	if err := checkJSON(c.Request); err != nil {
		return err
	}
	h := s.room.hold()
	defer h.release()
	body, err := readBody(c.Writer, c.Request, s.cfg.MaxBodyBytes, h)
	if err != nil {
		return err
	}
	defer releaseBody(body)
	skipByteOrderMark(body)
	var r checkRequest
	if err := r.decode(body); err != nil {
		return err
	}
	if err := mayTrack(&credential.Grant, r.agent.value); err != nil {
		return err
	}
	e, err := s.estimate(&r, credential.AccountID)
	if err != nil {
		return err
	}
	v, err := s.weigh(c.Request.Context(), credential.AccountID, r.agent.value, e)
	if err != nil {
		return err
	}
	reply(c.Writer, http.StatusOK, appendCheck(make([]byte, 0, 256), v, e))
	return nil
}

// decode reads the one object of the body, as strictly as an event is read.
func (r *checkRequest) decode(body *bytes.Buffer) error {
	d := decoder{json: decoders.Get().(*jsontext.Decoder), body: body.Bytes()}
	defer decoders.Put(d.json)
	d.json.Reset(body)
	if err := r.object(&d); err != nil {
		return syntaxProblem(err)
	}
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		return problem.New(problem.Invalid, "The body must hold one JSON object and nothing after it.")
	}
	// An event's own trimming and checks of names: what is asked about here must be
	// what is capped there.
	names := request{agent: r.agent, model: r.model, provider: r.provider}
	names.checkNames(&d.faults)
	r.agent, r.model, r.provider = names.agent, names.model, names.provider
	if len(d.faults) > 0 {
		return problem.FromFaults(d.faults)
	}
	return nil
}

func (r *checkRequest) object(d *decoder) error {
	if d.json.PeekKind() != '{' {
		if _, err := d.json.ReadValue(); err != nil {
			return err
		}
		return errNotObject
	}
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	for d.json.PeekKind() != '}' {
		raw, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		name, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return err
		}
		if err := r.field(d, string(name)); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return err
}

// field reads the value of the named field, and passes over one that is not known.
func (r *checkRequest) field(d *decoder, name string) error {
	switch name {
	case "agent":
		return d.text(name, &r.agent)
	case "model":
		return d.text(name, &r.model)
	case "provider":
		return d.text(name, &r.provider)
	case "input_tokens":
		return d.count(name, &r.input)
	case "max_output_tokens":
		return d.count(name, &r.maxOutput)
	}
	return d.json.SkipValue()
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

func (s *Server) estimate(r *checkRequest, account schema.ID) (estimate, error) {
	if !r.input.given() && !r.maxOutput.given() {
		return estimate{}, nil
	}
	book := s.prices(account)
	if book == nil {
		return estimate{}, errNoPrices
	}
	q, err := book.Quote(r.provider.value, r.model.value, s.now().UTC(),
		price.Usage{Input: r.input.value, Output: r.maxOutput.value, Given: true})
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

// weighed is what the caps of an agent say to an estimate.
type weighed struct {
	allowed bool
	// tightest is the cap with the least left, nil without any.
	tightest *lease.Standing
}

// weigh asks the cap of the agent and that of its account.
func (s *Server) weigh(ctx context.Context, account schema.ID, agent string, e estimate) (weighed, error) {
	w := weighed{allowed: true}
	for _, scope := range [...]budget.Scope{{AccountID: account, Agent: agent}, {AccountID: account}} {
		standing, ok, err := s.caps.Standing(ctx, scope)
		if err != nil {
			return weighed{}, capProblem(nil, err)
		}
		if !ok {
			continue
		}
		if standing.Remaining <= 0 || e.cost > standing.Remaining || e.unpriced && standing.Budget.OnUnpriced == budget.Deny {
			w.allowed = false
		}
		if w.tightest == nil || standing.Remaining < w.tightest.Remaining {
			w.tightest = &standing
		}
	}
	return w, nil
}

func appendCheck(dst []byte, w weighed, e estimate) []byte {
	dst = append(dst, `{"allowed":`...)
	if w.allowed {
		dst = append(dst, "true"...)
	} else {
		dst = append(dst, "false"...)
	}
	dst = append(dst, `,"remaining_usd":`...)
	if w.tightest == nil {
		dst = append(dst, "null"...)
	} else {
		dst = w.tightest.Remaining.AppendText(dst)
	}
	if e.known {
		dst = e.cost.AppendText(append(dst, `,"estimate_usd":`...))
	}
	dst = append(dst, `,"budget":`...)
	if w.tightest == nil {
		return append(dst, "null}"...)
	}
	return append(appendBudget(dst, *w.tightest), '}')
}
