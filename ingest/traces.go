package ingest

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/ingest/decode"
	"github.com/outlayhq/outlay/ingest/otlp"
	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/schema/problem"
)

// traces answers POST /v1/traces, where an OpenTelemetry exporter sends its spans
// by itself. The spans that are calls of models become events, each checked by itself;
// all others are left out. Unlike the other endpoints it answers as OTLP specifies, in
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

// export records the calls of a request and returns the response to it.
func (s *Server) export(c *gin.Context, encoding otlp.Encoding, known bool) ([]byte, error) {
	in, err := s.receive(c, expected{s.limit, func(r *http.Request) error {
		switch {
		case !known:
			return problem.New(problem.UnsupportedMediaType, "Send spans with Content-Type: application/x-protobuf or application/json.")
		case encoding == otlp.JSON:
			return checkCharset(r)
		}
		return nil
	}, s.cfg.MaxBatchBytes})
	if err != nil {
		return nil, err
	}
	defer in.close()
	b := s.newBatch(in.credential)
	spans, err := s.readSpans(c, in, b, encoding)
	if err != nil {
		b.release()
		return nil, err
	}
	settled := b.record(c.Request.Context(), &in.memory)
	var response []byte
	if err = unclear(b.records); err == nil {
		response = s.exportResponse(encoding, spans, b.records)
	}
	if settled {
		b.release()
	}
	return response, err
}

// readSpans reads the calls of a body. The error is one of the whole request.
func (s *Server) readSpans(c *gin.Context, in *incoming, b *batch, encoding otlp.Encoding) (otlp.Export, error) {
	body := in.body.Bytes()
	if encoding == otlp.JSON {
		body = in.text()
	}
	spans, err := b.spans.Read(body, encoding)
	if err != nil {
		return spans, exportProblem(err)
	}
	n := len(spans.Calls)
	if err := in.memory.Reserve(int64(n) * eventBytes); err != nil {
		return spans, err
	}
	// Calls count against the plan, other spans do not. One was counted before the body was read.
	if n == 0 {
		s.limits.Return(in.credential.AccountID, 1)
	}
	if err := s.limitRest(c, in.credential, n); err != nil {
		return spans, err
	}
	for i := range spans.Calls {
		b.add(decode.RequestFromSpan(&b.request, &spans.Calls[i], b.account))
	}
	return spans, nil
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

// unclear returns the first error that says nothing about the event itself. Then
// the exporter has to send all of the request again; what is recorded already is
// known by its span id.
func unclear(events []record.Event) error {
	for i := range events {
		if err := events[i].Err; err != nil && problem.From(err).Code == problem.Internal {
			return err
		}
	}
	return nil
}
