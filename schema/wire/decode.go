package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outlayhq/outlay/schema"
)

// ErrNotEvent is wrapped by every error of Decode.
var ErrNotEvent = errors.New("not an event")

// Decode reads the message of event.proto into e, replacing all of it. The byte
// fields of e share the memory of b, which must not change while e is in use.
// Unknown fields are skipped, and so is JSON that is no breakdown: the cost it explains
// is right without it. A packed breakdown is not looked into: AppendBreakdownJSON
// judges it. An event without id, account, agent, session, times
// or cost source is refused: no version of ingest has written one. Every error
// wraps ErrNotEvent.
func Decode(b []byte, e *schema.Event) error {
	*e = schema.Event{LatencyMS: schema.NoLatency, Status: schema.StatusOK}
	text := string(b)
	for rest := b; len(rest) > 0; {
		field, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return notEvent(protowire.ParseError(n))
		}
		rest = rest[n:]
		size := protowire.ConsumeFieldValue(field, kind, rest)
		if size < 0 {
			return notEvent(protowire.ParseError(size))
		}
		var err error
		switch kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(rest)
			err = setNumber(e, field, v)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(rest)
			end := len(b) - len(rest) + size
			err = setBytes(e, field, v, text[end-len(v):end])
		default:
			if field <= lastField {
				err = fmt.Errorf("field %d has wire type %d", field, kind)
			}
		}
		if err != nil {
			return notEvent(err)
		}
		rest = rest[size:]
	}
	return complete(e)
}

// lastField is the highest field number that this version knows.
const lastField = 30

func notEvent(err error) error { return fmt.Errorf("%w: %w", ErrNotEvent, err) }

// complete refuses an event that lacks what every event has.
func complete(e *schema.Event) error {
	var missing string
	switch {
	case e.ID.IsZero():
		missing = "id"
	case e.AccountID.IsZero():
		missing = "account_id"
	case e.Agent == "":
		missing = "agent"
	case e.SessionID == "":
		missing = "session_id"
	case e.Time.IsZero():
		missing = "time_us"
	case e.ReceivedAt.IsZero():
		missing = "received_at_us"
	case e.Source == "":
		missing = "cost_source"
	default:
		return nil
	}
	return fmt.Errorf("%w: it has no %s", ErrNotEvent, missing)
}

func setNumber(e *schema.Event, field protowire.Number, v uint64) error {
	n := int64(v)
	switch field {
	case 7:
		e.SessionImplicit = v != 0
	case 8:
		e.Time = timeOf(n)
	case 9:
		e.ReceivedAt = timeOf(n)
	case 10:
		e.InputTokens = n
	case 11:
		e.OutputTokens = n
	case 12:
		e.CacheReadTokens = n
	case 13:
		e.CacheWriteTokens = n
	case 14:
		e.CacheWrite1hTokens = n
	case 15:
		e.ReasoningTokens = n
	case 16:
		e.LatencyMS = n
	case 17:
		e.Cost = schema.NanoUSD(n)
	case 18:
		if v == 0 || v >= uint64(len(costSources)) {
			return fmt.Errorf("unknown cost source %d", v)
		}
		e.Source = costSources[v]
	case 21:
		if v != 0 {
			e.Status = schema.StatusError
		}
	default:
		if field <= lastField {
			return fmt.Errorf("field %d is not a number", field)
		}
	}
	return nil
}

// timeOf reads a time in microseconds. A zero is the same as a field that is left
// out, as everywhere in protobuf.
func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// setBytes sets a field that is text or bytes; v and s are the same value.
func setBytes(e *schema.Event, field protowire.Number, v []byte, s string) error {
	switch field {
	case 1:
		return setID(&e.ID, v)
	case 2:
		return setID(&e.AccountID, v)
	case 24:
		return setID(&e.Parent, v)
	case 29:
		var lease schema.ID
		if err := setID(&lease, v); err != nil || lease.IsZero() {
			return errors.Join(errors.New("not a lease"), err)
		}
		e.Leases = append(e.Leases, lease)
		return nil
	case 20:
		if isBreakdownJSON(v) && json.Valid(v) && utf8.Valid(v) {
			e.Breakdown = v
		}
		return nil
	case 30:
		if !isBreakdownJSON(v) { // Nothing else about it is judged before it is stored.
			e.Breakdown = bytesOf(v)
		}
		return nil
	case 27:
		e.Metadata = bytesOf(v)
		return nil
	}
	if field <= lastField && !utf8.ValidString(s) {
		return fmt.Errorf("field %d is not UTF-8", field)
	}
	switch field {
	case 3:
		e.Agent = s
	case 4:
		e.Provider = s
	case 5:
		e.Model = s
	case 6:
		e.SessionID = s
	case 19:
		e.PriceID = s
	case 22:
		e.ErrorType = s
	case 23:
		e.Step = s
	case 25:
		e.UserID = s
	case 26:
		e.Tags = append(e.Tags, s)
	case 28:
		e.IdempotencyKey = s
	default:
		if field <= lastField {
			return fmt.Errorf("field %d is not text", field)
		}
	}
	return nil
}

// bytesOf reads bytes. None are the same as a field that is left out.
func bytesOf(v []byte) []byte {
	if len(v) == 0 {
		return nil
	}
	return v
}

func setID(id *schema.ID, v []byte) error {
	if len(v) != len(id) {
		return fmt.Errorf("an id has %d bytes", len(v))
	}
	copy(id[:], v)
	return nil
}
