package ingest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/ingest/otlp"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// traces answers POST /v1/traces, where an OpenTelemetry exporter sends its spans
// by itself. The spans that are calls of models become events, each judged alone;
// all others are left out. Unlike the other endpoints it answers as OTLP says, in
// the encoding of the request.
func (s *Server) traces(c *gin.Context) error {
	encoding, known := otlp.EncodingOf(c.Request.Header.Get("Content-Type"))
	body, err := s.export(c, encoding, known)
	if err != nil {
		s.refuseExport(c, encoding, err)
		return nil
	}
	replyExport(c.Writer, encoding, http.StatusOK, body)
	return nil
}

// export records the calls of a request and returns the answer to it.
func (s *Server) export(c *gin.Context, encoding otlp.Encoding, known bool) ([]byte, error) {
	if err := s.room.enter(); err != nil {
		return nil, err
	}
	defer s.room.leave()
	credential, err := s.authenticate(c)
	if err != nil {
		return nil, err
	}
	if err := s.limit(c, credential); err != nil {
		return nil, err
	}
	if !known {
		return nil, problem.New(problem.UnsupportedMediaType, "Send spans with Content-Type: application/x-protobuf or application/json.")
	}
	if encoding == otlp.JSON && schema.OtherCharset(c.Request.Header.Get("Content-Type")) {
		return nil, errCharset
	}
	h := s.room.hold()
	defer h.release()
	body, err := readBody(c.Writer, c.Request, s.cfg.MaxBatchBytes, h)
	if err != nil {
		return nil, err
	}
	if encoding == otlp.JSON {
		skipByteOrderMark(body)
	}
	b := s.newBatch(credential.AccountID, credential.Grant)
	spans, err := b.spans.Read(body.Bytes(), encoding)
	releaseBody(body)
	if err != nil {
		b.release()
		return nil, exportProblem(err)
	}
	if err := h.take(int64(len(spans.Calls)) * eventBytes); err != nil {
		b.release()
		return nil, err
	}
	if err := s.limitCalls(c, credential, len(spans.Calls)); err != nil {
		b.release()
		return nil, err
	}
	for i := range spans.Calls {
		b.call(&spans.Calls[i])
	}
	s.admitAll(c.Request.Context(), b)
	settled := s.record(b.outcomes, h)
	if err := unclear(b.outcomes); err != nil {
		return nil, err
	}
	answer := s.summary(encoding, spans, b.outcomes)
	if settled {
		b.release()
	}
	return answer, nil
}

// limitCalls counts calls, and no other spans, against the account's plan. One was
// counted before the body was read.
func (s *Server) limitCalls(c *gin.Context, who account.Credential, n int) error {
	if n == 0 {
		s.limits.Return(who.AccountID, 1)
	}
	return s.limitRest(c, who, n)
}

func exportProblem(err error) error {
	switch {
	case errors.Is(err, otlp.ErrTooMany):
		return problem.New(problem.TooLarge, fmt.Sprintf(
			"A request may have at most %d spans, and %d attributes, events and links together. Send smaller batches.", otlp.MaxSpans, otlp.MaxNodes))
	case errors.Is(err, otlp.ErrTooDeep):
		return problem.New(problem.Invalid, fmt.Sprintf("The body may be nested at most %d deep, attributes included.", otlp.MaxDepth))
	}
	return problem.New(problem.Invalid, "The body is not an ExportTraceServiceRequest in the encoding that Content-Type says.")
}

// call adds the event of a call, as if a client had sent it in a batch.
func (b *batchOf) call(call *otlp.Call) {
	b.request.take(call, b.account)
	b.add(b.request.finish(call.Faults))
}

// take makes r the request that a client would have sent for the call.
func (r *request) take(call *otlp.Call, account schema.ID) {
	r.agent = given(call.Agent)
	r.model = given(call.Model)
	r.provider = given(call.Provider)
	r.sessionID = given(call.SessionID)
	r.step = given(call.Step)
	r.errorType = given(call.ErrorType)
	r.idempotencyKey = given(call.Key)
	r.input = optionalCount{call.Input.Value, call.Input.Name}
	r.output = optionalCount{call.Output.Value, call.Output.Name}
	r.cacheRead = optionalCount{call.CacheRead.Value, call.CacheRead.Name}
	r.cacheWrite = optionalCount{call.CacheWrite.Value, call.CacheWrite.Name}
	r.reasoning = optionalCount{call.Reasoning.Value, call.Reasoning.Name}
	r.time = call.Start.Truncate(time.Microsecond)
	if call.Failed {
		r.status = given(string(schema.StatusError))
	}
	if call.LatencyMS != schema.NoLatency {
		r.latency = optionalCount{call.LatencyMS, "latency_ms"}
	}
	if call.ParentKey != "" {
		r.parent = given(schema.KeyedEventID(account, call.ParentKey).Text(schema.EventPrefix))
	}
}

func given(text string) optionalText { return optionalText{text, text != ""} }

// unclear returns the first error that says nothing about the event itself. Then
// the exporter has to send all of the request again; what is recorded already is
// known by its span id.
func unclear(outcomes []outcome) error {
	for _, o := range outcomes {
		if o.err != nil && problem.From(o.err).Code == problem.Internal {
			return o.err
		}
	}
	return nil
}
