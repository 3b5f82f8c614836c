package ingest

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/ingest/otlp"
	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/schema/httpserver"
	"github.com/outlayhq/outlay/schema/problem"
)

// maxReasons is how many spans the message of a partial success speaks of.
const maxReasons = 3

// exportResponse counts the spans and returns the response that reports the refused ones.
func (s *Server) exportResponse(encoding otlp.Encoding, spans otlp.Export, events []record.Event) []byte {
	rejected := 0
	var reasons strings.Builder
	for i := range events {
		if events[i].Err == nil {
			continue
		}
		p := problem.From(events[i].Err)
		s.metrics.refused.WithLabelValues(string(p.Code)).Inc()
		if rejected++; rejected <= maxReasons {
			fmt.Fprintf(&reasons, " Span %s: %s", spans.Calls[i].Key, reason(p))
		}
	}
	s.metrics.spans.WithLabelValues("converted").Add(float64(len(events) - rejected))
	s.metrics.spans.WithLabelValues("rejected").Add(float64(rejected))
	s.metrics.spans.WithLabelValues("wrapper").Add(float64(spans.Wrappers))
	s.metrics.spans.WithLabelValues("ignored").Add(float64(spans.Others))
	if rejected == 0 {
		return encoding.AppendResponse(nil, 0, "")
	}
	message := fmt.Sprintf("%d of %d spans were not recorded.%s", rejected, spans.Spans(), reasons.String())
	return encoding.AppendResponse(nil, rejected, message)
}

// reason is why one span was refused, in a sentence or two.
func reason(p *problem.Problem) string {
	if len(p.Faults) == 0 {
		return p.Detail
	}
	faults := make([]string, len(p.Faults))
	for i, f := range p.Faults {
		faults[i] = f.Field + " " + f.Message
	}
	return strings.Join(faults, "; ") + "."
}

// exportStatus says how OTLP wants a request refused. Exporters send a request
// again after 429 and 503 but never after 500, and take 400 for a body that is
// not valid; so these differ from the statuses of the other endpoints.
func exportStatus(code problem.Code) (int, otlp.StatusCode) {
	switch code {
	case problem.Unauthorized:
		return http.StatusUnauthorized, otlp.Unauthenticated
	case problem.Forbidden:
		return http.StatusForbidden, otlp.PermissionDenied
	case problem.TooLarge, problem.UnsupportedMediaType:
		return code.Status(), otlp.InvalidArgument
	case problem.RateLimited:
		return http.StatusTooManyRequests, otlp.ResourceExhausted
	case problem.Invalid:
		return http.StatusBadRequest, otlp.InvalidArgument
	}
	return http.StatusServiceUnavailable, otlp.Unavailable
}

// refuseExport answers a request that was refused as a whole.
func (s *Server) refuseExport(c *gin.Context, encoding otlp.Encoding, err error) {
	p := problem.From(err)
	if !errors.As(err, new(*problem.Problem)) {
		s.log.ErrorContext(c.Request.Context(), "spans not recorded", "error", err)
	}
	s.metrics.refused.WithLabelValues(string(p.Code)).Inc()
	status, code := exportStatus(p.Code)
	switch status {
	case http.StatusUnauthorized:
		c.Writer.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		c.Writer.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(p.RetryAfter.Seconds())))))
	}
	httpserver.DiscardBody(c.Request)
	replyExport(c.Writer, encoding, status, encoding.AppendStatus(nil, code, p.Detail))
}

func replyExport(w http.ResponseWriter, encoding otlp.Encoding, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", encoding.ContentType())
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// A client that hung up sends the spans again.
	_, _ = w.Write(body)
}
