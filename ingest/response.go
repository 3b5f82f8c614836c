package ingest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// appendResult appends a tracking result after its opening brace.
func (s *Server) appendResult(ctx context.Context, dst []byte, e *record.Event) []byte {
	dst = append(dst, `"tracked":true,"cost_usd":`...)
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
	dst = strconv.AppendBool(dst, e.Duplicate)
	if standing, ok := s.standing(ctx, e); ok {
		dst = appendBudget(append(dst, `,"budget":`...), standing)
	}
	return append(appendWarnings(dst, e.Warnings), '}')
}

// standing returns the state of the tightest of an event's caps. ok is false without a cap.
func (s *Server) standing(ctx context.Context, e *record.Event) (standing lease.Standing, ok bool) {
	if e.Duplicate {
		return s.caps.Known(ctx, budget.Scope{AccountID: e.AccountID, Agent: e.Agent})
	}
	return e.Cap()
}

// appendBudget appends where a cap stands.
func appendBudget(dst []byte, s lease.Standing) []byte {
	dst = append(dst, `{"limit_usd":`...)
	dst = s.Budget.Limit.AppendText(dst)
	dst = append(dst, `,"spent_usd":`...)
	dst = s.Spent.AppendText(dst)
	dst = append(dst, `,"remaining_usd":`...)
	dst = s.Remaining.AppendText(dst)
	dst = append(dst, `,"period":"`...)
	dst = append(dst, s.Budget.Period...)
	dst = append(dst, `","resets_at":`...)
	if s.ResetsAt.IsZero() {
		return append(dst, `null}`...)
	}
	dst = append(dst, '"')
	dst = s.ResetsAt.UTC().AppendFormat(dst, time.RFC3339)
	return append(dst, `"}`...)
}

// appendWarnings appends the member that lists what was ignored, if there is anything.
func appendWarnings(dst []byte, warnings schema.Faults) []byte {
	if len(warnings) == 0 {
		return dst
	}
	dst = append(dst, `,"warnings":[`...)
	for i, w := range warnings {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(append(dst, `{"field":`...), w.Field)
		dst = append(appendText(append(dst, `,"message":`...), w.Message), '}')
	}
	return append(dst, ']')
}

// appendText appends a JSON string, or null for no text.
func appendText(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, "null"...)
	}
	dst, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		panic("BUG: an accepted text is not UTF-8: " + err.Error())
	}
	return dst
}

func reply(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonContentType
	if len(body) > ownLengthTo {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	// A client that hung up does not know, and sends the events again.
	_, _ = w.Write(body)
}

// ownLengthTo is the longest body whose Content-Length net/http sets by itself.
const ownLengthTo = 2 << 10

var jsonContentType = []string{"application/json"}
