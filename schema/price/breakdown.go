package price

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

const nanoDecimals = 9

// partHeads is what the part of each Kind begins with.
var partHeads = func() (heads [Kinds]string) {
	for k := range Kinds {
		heads[k] = `{"kind":"` + k.String() + `","tokens":`
	}
	return heads
}()

// ErrNotBreakdown is wrapped by every error about a packed breakdown.
var ErrNotBreakdown = errors.New("not a breakdown of a cost")

// The fields of CostBreakdown and of CostPart in event.proto.
const (
	partsField, aboveField, ruleField = 1, 2, 3

	kindField, tokensField, rateField, costField = 1, 2, 3, 4
)

// AppendBreakdown packs how the cost of a quote came about, as the message CostBreakdown of event.proto: a quarter
// of the JSON that is stored and shown in the end, so that it can travel with every event.
func AppendBreakdown(dst []byte, q *Quote) []byte {
	if q.AboveTokens > 0 {
		dst = appendNumber(dst, aboveField, q.AboveTokens)
	}
	if q.Rule != "" {
		dst = protowire.AppendVarint(append(dst, ruleField<<3|byte(protowire.BytesType)), uint64(len(q.Rule)))
		dst = append(dst, q.Rule...)
	}
	for k := range q.Parts {
		part := &q.Parts[k]
		if part.Tokens == 0 {
			continue
		}
		dst = append(dst, partsField<<3|byte(protowire.BytesType), 0)
		start := len(dst)
		dst = append(dst, kindField<<3, byte(k)+1)
		dst = appendNumber(dst, tokensField, part.Tokens)
		dst = appendNumber(dst, rateField, part.RatePicoUSD)
		dst = appendNumber(dst, costField, part.CostNanoUSD)
		dst[start-1] = byte(len(dst) - start) // At most 35.
	}
	return dst
}

func appendNumber(dst []byte, field byte, v int64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, field<<3), uint64(v))
}

// CheckBreakdown returns an error, which wraps ErrNotBreakdown, unless b is a packed breakdown all of which is
// understood.
func CheckBreakdown(b []byte) error {
	if IsBreakdownJSON(b) {
		return fmt.Errorf("%w: it begins as JSON does", ErrNotBreakdown)
	}
	_, err := unpack(b)
	return err
}

// AppendBreakdownJSON appends a packed breakdown as JSON: an array with, for each kind of token, its count, rate and
// share of the cost, the tier and the rule that matched the model. It is what is stored with an event and what readers
// are shown. What is such an array already, as earlier versions sent it with an event, stays as it is. An error wraps
// ErrNotBreakdown.
func AppendBreakdownJSON(dst, b []byte) ([]byte, error) {
	if IsBreakdownJSON(b) {
		return append(dst, b...), nil
	}
	u, err := unpack(b)
	if err != nil {
		return dst, err
	}
	dst = append(dst, '[')
	from, to := 0, 0 // where the tier and the rule are that all parts share
	for k, part := range u.parts.All() {
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		dst = append(dst, partHeads[k]...)
		dst = strconv.AppendInt(dst, part.Tokens, 10)
		dst = append(dst, `,"rate_usd_per_mtok":`...)
		dst = Rate(part.RatePicoUSD).Append(dst)
		dst = append(dst, `,"cost_usd":`...)
		dst = catalogue.AppendDecimal(dst, part.CostNanoUSD, nanoDecimals)
		if to > 0 {
			dst = append(dst, dst[from:to]...)
			continue
		}
		from = len(dst)
		dst = append(dst, `,"tier":"`...)
		dst = appendTier(dst, u.aboveTokens)
		dst = append(dst, `","rule":"`...)
		dst = appendEscaped(dst, u.rule)
		dst = append(dst, `"}`...)
		to = len(dst)
	}
	return append(dst, ']'), nil
}

// IsBreakdownJSON tells a breakdown that is JSON already from a packed one, none of whose fields begins with a bracket.
// Field 11 as a group would, and is never to be one.
func IsBreakdownJSON(b []byte) bool { return len(b) > 0 && b[0] == '[' }

type unpacked struct {
	parts       Parts
	aboveTokens int64
	rule        []byte
}

func unpack(b []byte) (u unpacked, err error) {
	err = eachField(b, func(field protowire.Number, number int64, text []byte) error {
		switch field {
		case partsField:
			return u.unpackPart(text)
		case aboveField:
			u.aboveTokens = number
			return checkNumber(field, number)
		case ruleField:
			u.rule = text
		}
		return nil
	})
	return u, err
}

func (u *unpacked) unpackPart(b []byte) error {
	var kind int64
	var part Part
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
	if err == nil && (kind < 1 || kind > int64(Kinds)) {
		err = fmt.Errorf("%w: unknown kind %d", ErrNotBreakdown, kind)
	}
	if err == nil {
		u.parts[kind-1] = part
	}
	return err
}

func checkNumber(field protowire.Number, number int64) error {
	if number < 0 {
		return fmt.Errorf("%w: field %d is negative", ErrNotBreakdown, field)
	}
	return nil
}

// eachField tells the fields of a message that are numbers or bytes. It passes over others.
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

func appendTier(dst []byte, above int64) []byte {
	if above == 0 {
		return append(dst, "base"...)
	}
	return strconv.AppendInt(append(dst, "above "...), above, 10)
}

// appendEscaped appends s as the inside of a JSON string. Rules are visible ASCII, except for an override's
// pattern, which an operator wrote; anything else in it becomes a question mark, so that it can be stored anywhere.
func appendEscaped(dst, s []byte) []byte {
	if isPlain(s) {
		return append(dst, s...)
	}
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		s = s[size:]
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ' || r > '~':
			dst = append(dst, '?')
		default:
			dst = append(dst, byte(r))
		}
	}
	return dst
}

func isPlain(s []byte) bool {
	for _, c := range s {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
