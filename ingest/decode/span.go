package decode

import (
	"time"

	"github.com/outlayhq/outlay/ingest/otlp"
	"github.com/outlayhq/outlay/schema"
)

// RequestFromSpan makes r, which was reset, the request that a client would have sent for the call. The error is a
// problem that lists every field error.
func RequestFromSpan(r *Request, call *otlp.Call, account schema.ID) error {
	r.agent = givenText(call.Agent)
	r.model = givenText(call.Model)
	r.provider = givenText(call.Provider)
	r.sessionID = givenText(call.SessionID)
	r.step = givenText(call.Step)
	r.errorType = givenText(call.ErrorType)
	r.idempotencyKey = givenText(call.Key)
	r.input = optionalCount{call.Input.Value, call.Input.Name}
	r.output = optionalCount{call.Output.Value, call.Output.Name}
	r.cacheRead = optionalCount{call.CacheRead.Value, call.CacheRead.Name}
	r.cacheWrite = optionalCount{call.CacheWrite.Value, call.CacheWrite.Name}
	r.reasoning = optionalCount{call.Reasoning.Value, call.Reasoning.Name}
	r.time = call.Start.Truncate(time.Microsecond)
	if call.Failed {
		r.status = givenText(string(schema.StatusError))
	}
	if call.LatencyMS != schema.NoLatency {
		r.latency = optionalCount{call.LatencyMS, "latency_ms"}
	}
	if call.ParentKey != "" {
		r.parent = givenText(schema.KeyedEventID(account, call.ParentKey).Text(schema.EventPrefix))
	}
	return r.validate(call.Faults)
}

func givenText(text string) optionalText { return optionalText{text, text != ""} }
