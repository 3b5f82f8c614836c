package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outlayhq/outlay/schema/price"
)

// ErrNotBreakdown is wrapped by every error about a packed breakdown.
var ErrNotBreakdown = errors.New("not a breakdown of a cost")

// The fields of CostBreakdown and of CostPart in event.proto.
const (
	partsField, aboveField, ruleField = 1, 2, 3

	kindField, tokensField, rateField, costField = 1, 2, 3, 4
)

// AppendBreakdown packs how the cost of a quote came about, as the message CostBreakdown of event.proto: a quarter
// of the JSON that is stored and shown in the end, so that it can travel with every event.
func AppendBreakdown(dst []byte, q *price.Quote) []byte {
	dst = appendNumber(dst, aboveField, q.AboveTokens)
	dst = appendText(dst, ruleField, q.Rule)
	for k := range q.Parts {
		part := &q.Parts[k]
		if part.Tokens == 0 {
			continue
		}
		dst = append(dst, partsField<<3|byte(protowire.BytesType), 0)
		start := len(dst)
		dst = append(dst, kindField<<3, byte(k)+1)
		dst = appendCount(dst, tokensField, part.Tokens)
		dst = appendCount(dst, rateField, part.RatePicoUSD)
		dst = appendCount(dst, costField, part.CostNanoUSD)
		dst[start-1] = byte(len(dst) - start) // At most 35.
	}
	return dst
}

// appendCount is appendNumber for a field below 16, small enough to be inlined where each
// event has several: with appendNumber packing took 1.1 to 1.7 times as long.
func appendCount(dst []byte, field byte, v int64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, field<<3), uint64(v))
}

// AppendBreakdownJSON appends a packed breakdown as price.AppendBreakdown makes it. What is JSON already, as earlier
// versions sent it with an event, stays as it is. An error wraps ErrNotBreakdown.
func AppendBreakdownJSON(dst, b []byte) ([]byte, error) {
	if isBreakdownJSON(b) {
		return append(dst, b...), nil
	}
	q, err := unpack(b)
	if err != nil {
		return dst, err
	}
	return price.AppendBreakdown(dst, &q), nil
}

// isBreakdownJSON distinguishes a breakdown that is JSON already from a packed one, none of whose fields begins with a bracket.
// Field 11 as a group would, and is never to be one.
func isBreakdownJSON(b []byte) bool { return len(b) > 0 && b[0] == '[' }

// unpack returns what of a quote a breakdown has.
func unpack(b []byte) (q price.Quote, err error) {
	err = eachField(b, func(field protowire.Number, number int64, text []byte) error {
		switch field {
		case partsField:
			return unpackPart(text, &q.Parts)
		case aboveField:
			q.AboveTokens = number
			return checkNumber(field, number)
		case ruleField:
			q.Rule = string(text)
		}
		return nil
	})
	return q, err
}

func unpackPart(b []byte, parts *price.Parts) error {
	var kind int64
	var part price.Part
	err := eachField(b, func(field protowire.Number, number int64, _ []byte) error {
		switch field {
		case kindField:
			kind = number
		case tokensField:
			part.Tokens = number
		case rateField:
			part.RatePicoUSD = number
		case costField:
			part.CostNanoUSD = number
		default:
			return nil
		}
		return checkNumber(field, number)
	})
	if err == nil && (kind < 1 || kind > int64(price.Kinds)) {
		err = fmt.Errorf("%w: unknown kind %d", ErrNotBreakdown, kind)
	}
	if err == nil {
		parts[kind-1] = part
	}
	return err
}

func checkNumber(field protowire.Number, number int64) error {
	if number < 0 {
		return fmt.Errorf("%w: field %d is negative", ErrNotBreakdown, field)
	}
	return nil
}

// eachField passes on the fields of a message that are numbers or bytes. It passes over others.
func eachField(b []byte, tell func(field protowire.Number, number int64, text []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrNotBreakdown, protowire.ParseError(n))
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(field, kind, b)
		if size < 0 {
			return fmt.Errorf("%w: %w", ErrNotBreakdown, protowire.ParseError(size))
		}
		var err error
		switch kind {
		case protowire.VarintType:
			number, _ := protowire.ConsumeVarint(b)
			err = tell(field, int64(number), nil)
		case protowire.BytesType:
			text, _ := protowire.ConsumeBytes(b)
			err = tell(field, 0, text)
		}
		if err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}
