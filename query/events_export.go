package query

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
)

// exportPage is how many events are read at once: it bounds the memory of an
// export, however long it is.
const exportPage = 1000

// exportPatience is how long a client may take to read one page.
const exportPatience = time.Minute

// exporter writes events in one of the formats.
type exporter interface {
	event(*usage.Event)
	// flush sends what was written. The error is that of a client that hung up.
	flush() error
}

// exportEvents streams all events that the filters let through, newest first. It
// reads page by page, each in its own transaction, so that a slow client holds
// nothing in the database.
func (s *Server) exportEvents(c *rest.Request) error {
	p := c.Params(eventFilters("format")...)
	filter, format := eventFilter(p), p.OneOf("format", "csv", "csv", "ndjson", "focus")
	if err := p.Err(); err != nil {
		return err
	}
	position := usage.Position{Time: filter.To}
	// The first page comes before the first byte, so that an error of it is an
	// answer and not a broken stream.
	events, err := s.usage.Events(c.Ctx(), c.Who.AccountID, &filter, position, exportPage)
	if err != nil {
		return storeError(err, "event")
	}
	out, err := s.newExporter(c, format)
	if err != nil {
		return err
	}
	for {
		if err := sendPage(c, out, events); err != nil {
			return err
		}
		// A short page is the last one.
		if len(events) < exportPage {
			return nil
		}
		last := &events[len(events)-1]
		// Each page begins behind the last event: what arrives meanwhile at the top is not in the export, and nothing
		// comes twice.
		position = usage.Position{Time: last.Timestamp.Time, ID: [16]byte(last.EventID)}
		if events, err = s.usage.Events(c.Ctx(), c.Who.AccountID, &filter, position, exportPage); err != nil {
			return err
		}
	}
}

func sendPage(c *rest.Request, out exporter, events []usage.Event) error {
	for i := range events {
		out.event(&events[i])
	}
	// A server without deadlines has none to move.
	// The server's own deadline is for a whole response, which an export cannot keep.
	err := http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(exportPatience))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("export events: %w", err)
	}
	if err := out.flush(); err != nil {
		return fmt.Errorf("export events: %w", err)
	}
	// The page goes out before the next one is read, so that memory holds one page.
	c.Writer.Flush()
	return c.Ctx().Err()
}

// newExporter begins the response. Formats have the same events, in the same order.
func (s *Server) newExporter(c *rest.Request, format string) (exporter, error) {
	switch format {
	case "ndjson":
		c.Header("Content-Type", "application/x-ndjson")
		c.Header("Content-Disposition", `attachment; filename="events.ndjson"`)
		c.Status(http.StatusOK)
		return &ndjsonExporter{c: c}, nil
	case "focus":
		name, err := s.usage.AccountName(c.Ctx(), c.Who.AccountID)
		if err != nil {
			return nil, storeError(err, "account")
		}
		return newFocusExporter(c, name), nil
	}
	return &csvExporter{rest.NewCSV(c, "events.csv", csvEventHeader())}, nil
}

// ndjsonExporter writes one JSON object a line, the same as in the list.
type ndjsonExporter struct {
	c      *rest.Request
	buffer bytes.Buffer
	err    error // The first one of event, which flush returns.
}

func (x *ndjsonExporter) event(e *usage.Event) {
	if x.err == nil {
		x.err = rest.JSONEncoder(&x.buffer).Encode(e)
	}
}

func (x *ndjsonExporter) flush() error {
	if x.err != nil {
		return x.err
	}
	_, err := x.buffer.WriteTo(x.c.Writer)
	return err
}

// csvExporter writes every field of an event as a column.
type csvExporter struct{ *rest.CSV }

// csvEventHeader has the names that JSON has.
func csvEventHeader() []string {
	return []string{
		"event_id", "timestamp", "received_at", "agent", "model", "provider", "session_id", "session_implicit",
		"status", "error_type", "step", "user_id", "parent_event_id",
		"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens", "reasoning_tokens",
		"latency_ms", "cost_usd", "cost_source", "price_id", "tags", "metadata", "idempotency_key",
	}
}

func (x *csvExporter) event(e *usage.Event) {
	x.Text(e.EventID.String(), e.Timestamp.String(), e.ReceivedAt.String())
	x.Names(&e.Agent, e.Model, e.Provider, &e.SessionID)
	x.Text(strconv.FormatBool(e.SessionImplicit), e.Status)
	x.Names(e.ErrorType, e.Step, e.UserID)
	x.Text(parentOf(e))
	x.Number(e.InputTokens, e.OutputTokens, e.CacheReadTokens, e.CacheWriteTokens, e.CacheWrite1hTokens, e.ReasoningTokens)
	x.Optional(e.LatencyMS)
	x.Text(e.CostUSD.String(), e.CostSource)
	x.Names(e.PriceID)
	x.Name(strings.Join(e.Tags, ","))
	x.Text(string(e.Metadata))
	x.Names(e.IdempotencyKey)
	x.EndLine()
}

// parentOf returns the id of the step that caused the event, empty without one.
func parentOf(e *usage.Event) string {
	if e.ParentEventID == nil {
		return ""
	}
	return e.ParentEventID.String()
}

func (x *csvExporter) flush() error { return x.Send() }
