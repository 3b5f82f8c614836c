package ingest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/problem"
)

// track answers POST /v1/track and POST /v1/events. The order of checks is the
// documented one: key, rate limit, body, caps, then the write to Kafka.
func (s *Server) track(c *gin.Context) error {
	if err := s.room.enter(); err != nil {
		return err
	}
	defer s.room.leave()
	credential, err := s.authenticate(c)
	if err != nil {
		return err
	}
	if err := s.limit(c, credential); err != nil {
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
	one := spareSingles.Get().(*single)
	r := &one.request
	if err := decode(body.Bytes(), r); err != nil {
		return err
	}
	if err := mayTrack(&credential.Grant, r.agent.value); err != nil {
		return err
	}
	if err := r.headerKey(c.Request); err != nil {
		return err
	}
	o := &one.outcomes[0]
	o.admission = s.event(&one.event, r, credential.AccountID, s.arrival())
	o.err = s.admit(c.Request.Context(), &o.admission)
	if s.confirm(c.Request.Context(), one.outcomes[:]); o.err != nil {
		return o.err
	}
	if s.record(one.outcomes[:], h); o.err != nil {
		return o.err
	}
	one.answer = s.appendResult(c.Request.Context(), one.answer, &o.admission)
	reply(c.Writer, http.StatusOK, one.answer)
	one.release()
	return nil
}

// single is the memory of a request with one event.
type single struct {
	request  request
	event    schema.Event
	outcomes [1]outcome
	answer   []byte
}

// spareSingles are used again, with their memory. One goes back when its event was
// acknowledged and answered; nothing refers to it any more then.
var spareSingles = sync.Pool{New: func() any { return new(single) }}

func (one *single) release() {
	if !one.request.memory.empty() || cap(one.answer) > maxKept {
		return
	}
	one.request.next()
	one.outcomes[0] = outcome{}
	one.answer = one.answer[:0]
	spareSingles.Put(one)
}

// admission is an event that may be recorded, with what its caps were charged.
type admission struct {
	event *schema.Event
	// unfit is why the event cannot be recorded, unless it is recorded already.
	unfit  error
	charge *lease.Charge
	// warnings are of fields that were ignored; the client learns of them.
	warnings schema.Faults
	// duplicate says that the event is recorded already, or on its way.
	duplicate bool
	// fingerprint and flight are those of an event with an idempotency key.
	fingerprint uint64
	flight      *flight
}

// outcome is what came of one event of a request: it, or why it was not recorded.
type outcome struct {
	admission
	err error
}

// admit charges the caps of an event, unless it is recorded already or on its way.
// What it refuses with an idempotency key confirm has to look at.
func (s *Server) admit(ctx context.Context, a *admission) error {
	if a.event.IdempotencyKey == "" {
		return s.charge(ctx, a)
	}
	f, mine, err := s.recent.claim(a.event.ID, a.fingerprint)
	if err != nil {
		return err
	}
	if a.flight, a.duplicate = f, !mine; a.duplicate {
		return nil
	}
	err = s.charge(ctx, a)
	if err != nil && !capReached(err) {
		s.recent.land(*a, err)
	}
	return err
}

// charge charges the caps of an event that may be recorded.
func (s *Server) charge(ctx context.Context, a *admission) (err error) {
	if a.unfit != nil {
		return a.unfit
	}
	if a.charge, err = s.caps.Admit(ctx, a.event); err != nil {
		return capProblem(a.event, err)
	}
	return nil
}

// headerKey takes the idempotency key from the header Idempotency-Key unless the
// body has one; the two must not contradict each other.
func (r *request) headerKey(req *http.Request) error {
	values := req.Header["Idempotency-Key"]
	if len(values) == 0 {
		return nil
	}
	header := optionalText{value: values[0], given: true}
	if len(values) > 1 || r.idempotencyKey.given && r.idempotencyKey != header {
		return problem.FromFaults(schema.Faults{{Field: "idempotency_key", Message: "must not differ from the header Idempotency-Key, which may be there once"}})
	}
	r.idempotencyKey = header
	var faults schema.Faults
	if r.checkKey(&faults); len(faults) > 0 {
		return problem.FromFaults(faults)
	}
	return nil
}

// record writes the events that are still good to Kafka, save those that are
// there already, and counts them. Those that Kafka did not take get an error. It
// reports whether nothing refers to the events any more.
func (s *Server) record(outcomes []outcome, h *hold) (settled bool) {
	deadline := time.Now().Add(s.cfg.ProduceTimeout)
	settled = s.producer.Produce(outcomes, h)
	calculated := 0
	for i := range outcomes {
		o := &outcomes[i]
		if o.err == nil && o.duplicate {
			o.err = o.follow(deadline)
		}
		if o.err == nil && len(o.warnings) > 0 {
			s.metrics.warnings.Add(float64(len(o.warnings)))
		}
		switch {
		case o.err != nil:
			if reason := produceErrorReason(o.err); reason != "" {
				s.metrics.produceErrors.WithLabelValues(reason).Inc()
				o.err = errNotRecorded
			}
		case o.duplicate:
			s.metrics.duplicates.Inc()
		case o.event.Source == schema.CostCalculated:
			calculated++
		default:
			s.metrics.event(o.event.Source)
		}
	}
	s.metrics.calculatedEvents(calculated)
	return settled
}

// errNotRecorded is the answer when Kafka did not acknowledge: nobody knows
// whether the event is in, so the client is asked to send it again.
var errNotRecorded = &problem.Problem{
	Code: problem.Internal,
	Detail: "The event could not be confirmed in time. Send it again with growing waits; " +
		"with an idempotency_key it is recorded once, however often it is sent.",
	RetryAfter: 2 * time.Second,
}

// produceErrorReason is the metric's label for an error of Produce, "" for others.
func produceErrorReason(err error) string {
	switch {
	case errors.Is(err, ErrFull):
		return "buffer_full"
	case errors.Is(err, ErrTimeout):
		return "timeout"
	case errors.Is(err, ErrRefused):
		return "refused"
	}
	return ""
}

// appendResult appends the tracking result.
func (s *Server) appendResult(ctx context.Context, dst []byte, a *admission) []byte {
	dst = append(dst, `{"tracked":true,`...)
	return append(s.appendFields(ctx, dst, a), '}')
}

// appendFields appends what follows "tracked" in a tracking result.
func (s *Server) appendFields(ctx context.Context, dst []byte, a *admission) []byte {
	e := a.event
	dst = append(dst, `"cost_usd":`...)
	dst = e.Cost.AppendText(dst)
	dst = append(dst, `,"session_id":`...)
	dst = appendText(dst, e.SessionID)
	dst = append(dst, `,"event_id":"`...)
	dst = e.ID.AppendText(dst, schema.EventPrefix)
	dst = append(dst, `","provider":`...)
	dst = appendText(dst, e.Provider)
	dst = append(dst, `,"model":`...)
	dst = appendText(dst, e.Model)
	dst = append(dst, `,"cost_source":"`...)
	dst = append(dst, e.Source...)
	dst = append(dst, `","price_id":`...)
	dst = appendText(dst, e.PriceID)
	dst = append(dst, `,"duplicate":`...)
	dst = strconv.AppendBool(dst, a.duplicate)
	if standing, ok := s.standing(ctx, a); ok {
		dst = appendBudget(append(dst, `,"budget":`...), standing)
	}
	return appendWarnings(dst, a.warnings)
}

// standing returns where the tightest of an event's caps stands. ok is false without a cap.
func (s *Server) standing(ctx context.Context, a *admission) (standing lease.Standing, ok bool) {
	if a.duplicate {
		return s.caps.Known(ctx, budget.Scope{AccountID: a.event.AccountID, Agent: a.event.Agent})
	}
	return a.charge.Standing()
}

// appendText appends a JSON string, or null for no text.
func appendText(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, "null"...)
	}
	if plain(text) {
		return append(append(append(dst, '"'), text...), '"')
	}
	dst, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		panic("BUG: an accepted text is not UTF-8: " + err.Error())
	}
	return dst
}

// plain reports whether text is a JSON string as it stands.
func plain(text string) bool {
	if len(text) >= 8 {
		for rest := text; len(rest) > 8; rest = rest[8:] {
			if notPlain(word(rest)) != 0 {
				return false
			}
		}
		return notPlain(word(text[len(text)-8:])) == 0
	}
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func reply(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonContentType
	if len(body) > ownLengthTo {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	// A client that hung up knows nothing and will send the event again.
	_, _ = w.Write(body)
}

// ownLengthTo is up to which length of an answer net/http says the length by itself.
const ownLengthTo = 2 << 10

var jsonContentType = []string{"application/json"}
