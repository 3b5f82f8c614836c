package price

import (
	"strconv"

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

// AppendBreakdown appends how the cost of a quote came about as JSON: an array with, for each kind of token, its count,
// rate and share of the cost, the tier and the rule that matched the model. It is what is stored with an event and what
// readers are shown. A quote without a calculated cost has no parts: [].
func AppendBreakdown(dst []byte, q *Quote) []byte {
	dst = append(dst, '[')
	from, to := 0, 0 // where the tier and the rule are that all parts share
	for k, part := range q.Parts.All() {
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
		dst = appendTier(dst, q.AboveTokens)
		dst = append(dst, `","rule":"`...)
		dst = appendEscaped(dst, q.Rule)
		dst = append(dst, `"}`...)
		to = len(dst)
	}
	return append(dst, ']')
}

func appendTier(dst []byte, above int64) []byte {
	if above == 0 {
		return append(dst, "base"...)
	}
	return strconv.AppendInt(append(dst, "above "...), above, 10)
}

// appendEscaped appends s as the inside of a JSON string. Rules are visible ASCII, except for an override's
// pattern, which an operator wrote; anything else in it becomes a question mark, so that it can be stored anywhere.
func appendEscaped(dst []byte, s string) []byte {
	if isPlain(s) {
		return append(dst, s...)
	}
	for _, r := range s {
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

func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
