package query

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// Answers of hundreds of events or thousands of buckets are written field by field:
// encoding/json takes longer for them than the database. What is written is what the
// json tags of the types say; a test compares both.

// appendKey begins a field of the object that b ends with.
func appendKey(b []byte, key string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

func appendText(b []byte, key, text string) []byte {
	// Text that is not UTF-8 cannot be stored.
	b, _ = jsontext.AppendQuote(appendKey(b, key), text)
	return b
}

// appendOptional writes null for nil.
func appendOptional[T ~string](b []byte, key string, text *T) []byte {
	if text == nil {
		return append(appendKey(b, key), "null"...)
	}
	return appendText(b, key, string(*text))
}

func appendTexts(b []byte, key string, texts []string) []byte {
	b = append(appendKey(b, key), '[')
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, text)
	}
	return append(b, ']')
}

func appendNumber(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(appendKey(b, key), n, 10)
}

func appendOptionalNumber(b []byte, key string, n *int64) []byte {
	if n == nil {
		return append(appendKey(b, key), "null"...)
	}
	return appendNumber(b, key, *n)
}

func appendTime(b []byte, key string, t usage.Time) []byte {
	return t.AppendJSON(appendKey(b, key))
}

func appendEventID(b []byte, key string, id *usage.EventID) []byte {
	b = appendKey(b, key)
	if id == nil {
		return append(b, "null"...)
	}
	return append(schema.ID(*id).AppendText(append(b, '"'), schema.EventPrefix), '"')
}

// appendRaw writes JSON as it was stored.
func appendRaw(b []byte, key string, text []byte) []byte {
	b = appendKey(b, key)
	if text == nil {
		return append(b, "null"...)
	}
	return append(b, text...)
}

// appendEvent writes an event.
func appendEvent(b []byte, e *usage.Event) []byte {
	return append(appendEventFields(append(b, '{'), e), '}')
}

func appendEventFields(b []byte, e *usage.Event) []byte {
	b = appendEventID(b, "event_id", &e.EventID)
	b = appendText(b, "agent", e.Agent)
	b = appendOptional(b, "model", e.Model)
	b = appendOptional(b, "provider", e.Provider)
	b = appendText(b, "session_id", e.SessionID)
	b = strconv.AppendBool(appendKey(b, "session_implicit"), e.SessionImplicit)
	b = appendTime(b, "timestamp", e.Timestamp)
	b = appendTime(b, "received_at", e.ReceivedAt)
	b = appendText(b, "status", e.Status)
	b = appendOptional(b, "error_type", e.ErrorType)
	b = appendOptional(b, "step", e.Step)
	b = appendOptional(b, "user_id", e.UserID)
	b = appendEventID(b, "parent_event_id", e.ParentEventID)
	b = appendNumber(b, "input_tokens", e.InputTokens)
	b = appendNumber(b, "output_tokens", e.OutputTokens)
	b = appendNumber(b, "cache_read_tokens", e.CacheReadTokens)
	b = appendNumber(b, "cache_write_tokens", e.CacheWriteTokens)
	b = appendNumber(b, "cache_write_1h_tokens", e.CacheWrite1hTokens)
	b = appendNumber(b, "reasoning_tokens", e.ReasoningTokens)
	b = appendOptionalNumber(b, "latency_ms", e.LatencyMS)
	b = e.CostUSD.AppendText(appendKey(b, "cost_usd"))
	b = appendText(b, "cost_source", e.CostSource)
	b = appendOptional(b, "price_id", e.PriceID)
	b = appendTexts(b, "tags", e.Tags)
	b = appendRaw(b, "metadata", e.Metadata)
	return appendOptional(b, "idempotency_key", e.IdempotencyKey)
}

// appendStep writes an event in its place in a session.
func appendStep(b []byte, s *usage.Step) []byte {
	b = appendEventFields(append(b, '{'), &s.Event)
	b = appendNumber(b, "index", s.Index)
	b = appendNumber(b, "offset_ms", s.OffsetMS)
	b = s.CumulativeCostUSD.AppendText(appendKey(b, "cumulative_cost_usd"))
	return append(b, '}')
}

// appendSession writes a session of the list.
func appendSession(b []byte, r *sessionReply) []byte {
	b = appendText(append(b, '{'), "id", r.ID)
	b = strconv.AppendBool(appendKey(b, "implicit"), r.Implicit)
	b = appendTexts(b, "agents", r.Agents)
	b = appendNumber(b, "events", r.Events)
	b = appendNumber(b, "errors", r.Errors)
	b = r.InputTokens.AppendText(appendKey(b, "input_tokens"))
	b = r.OutputTokens.AppendText(appendKey(b, "output_tokens"))
	b = r.CostUSD.AppendText(appendKey(b, "cost_usd"))
	b = appendTime(b, "started_at", r.StartedAt)
	b = appendTime(b, "ended_at", r.EndedAt)
	b = appendNumber(b, "duration_ms", r.DurationMS)
	return append(b, '}')
}

// appendBucket writes a bucket of an analysis.
func appendBucket(b []byte, r *bucketReply) []byte {
	b = appendTime(append(b, '{'), "bucket", r.Bucket)
	if r.Agent != nil {
		b = appendText(b, "agent", *r.Agent)
	}
	if r.Model != nil {
		b = appendOptional(b, "model", nonEmpty(string(*r.Model)))
	}
	if r.Provider != nil {
		b = appendOptional(b, "provider", nonEmpty(string(*r.Provider)))
	}
	b = appendNumber(b, "events", r.Events)
	b = appendNumber(b, "errors", r.Errors)
	b = appendNumber(b, "unpriced_events", r.UnpricedEvents)
	b = r.InputTokens.AppendText(appendKey(b, "input_tokens"))
	b = r.OutputTokens.AppendText(appendKey(b, "output_tokens"))
	b = r.CacheRead.AppendText(appendKey(b, "cache_read_tokens"))
	b = r.CostUSD.AppendText(appendKey(b, "cost_usd"))
	b = appendOptionalNumber(b, "avg_latency_ms", r.Avg)
	b = appendOptionalNumber(b, "p50_latency_ms", r.P50)
	b = appendOptionalNumber(b, "p95_latency_ms", r.P95)
	b = appendOptionalNumber(b, "p99_latency_ms", r.P99)
	b = appendOptionalNumber(b, "max_latency_ms", r.MaxLatencyMS)
	return append(b, '}')
}

// replyWithList answers an object of the fields of before, the list under key, each item
// of which takes about itemSize bytes, and the fields of after. Both are structs, before
// may be nil.
func replyWithList[T any](c *request, before any, key string, items []T, itemSize int, appendItem func([]byte, *T) []byte, after any) error {
	head := []byte("{}")
	if before != nil {
		var err error
		if head, err = json.Marshal(before); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
	}
	tail, err := json.Marshal(after)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	b := make([]byte, 0, len(head)+len(tail)+len(key)+16+len(items)*itemSize)
	b = append(b, head[:len(head)-1]...)
	b = append(appendKey(b, key), '[')
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, &items[i])
	}
	b = append(append(b, "],"...), tail[1:]...)
	c.Data(http.StatusOK, "application/json", b)
	return nil
}

// About how many bytes an event, a session and a bucket take.
const (
	eventSize   = 900
	sessionSize = 300
	bucketSize  = 400
)

// nextPage is the end of a list.
type nextPage struct {
	NextCursor *string `json:"next_cursor"`
}
