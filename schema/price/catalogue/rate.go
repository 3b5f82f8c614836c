package catalogue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Rate is the price of one token in pico-USD. In JSON it is a plain decimal of USD per million tokens,
// the unit providers publish: 2.5 is 2 500 000 pico-USD a token.
type Rate int64

const (
	// MaxRate is one USD a token, a million times more than anything sold.
	MaxRate Rate = 1_000_000_000_000
	// rateDecimals is how many decimals of USD per million tokens a pico-USD per token resolves.
	rateDecimals = 6
)

// Rates are the prices of each kind of token. nil is "not published", which is not the same as zero:
// cached kinds then cost as input and reasoning as output, and input or output without a rate has no price.
type Rates struct {
	Input        *Rate `json:"input,omitempty"`
	Output       *Rate `json:"output,omitempty"`
	CacheRead    *Rate `json:"cache_read,omitempty"`
	CacheWrite   *Rate `json:"cache_write,omitempty"`
	CacheWrite1h *Rate `json:"cache_write_1h,omitempty"`
	Reasoning    *Rate `json:"reasoning,omitempty"`
}

// IsZero reports whether no rate is published at all.
func (r Rates) IsZero() bool { return r == Rates{} }

// All returns the rates in the order of the fields, nil where there is none.
func (r Rates) All() [6]*Rate {
	return [...]*Rate{r.Input, r.Output, r.CacheRead, r.CacheWrite, r.CacheWrite1h, r.Reasoning}
}

// ParseRate reads a plain decimal of USD per million tokens: digits, optionally a point and up to six decimals.
func ParseRate(s string) (Rate, error) {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole == "" || len(whole) > 7 || len(fraction) > rateDecimals || strings.HasSuffix(s, ".") {
		return 0, fmt.Errorf("rate %q is not a decimal of at most %d places", clip(s), rateDecimals)
	}
	var rate Rate
	for _, c := range []byte(whole + fraction + strings.Repeat("0", rateDecimals-len(fraction))) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("rate %q is not a plain decimal", clip(s))
		}
		rate = rate*10 + Rate(c-'0')
	}
	if rate > MaxRate {
		return 0, fmt.Errorf("rate %q is above %s USD per million tokens", s, MaxRate)
	}
	return rate, nil
}

// UnmarshalJSON reads a JSON number without passing through a float.
func (r *Rate) UnmarshalJSON(b []byte) (err error) {
	*r, err = ParseRate(string(b))
	return err
}

// MarshalJSON writes the shortest exact decimal.
func (r Rate) MarshalJSON() ([]byte, error) {
	if r < 0 || r > MaxRate {
		return nil, errors.New("rate out of range")
	}
	return AppendDecimal(nil, int64(r), rateDecimals), nil
}

// String is the rate in USD per million tokens.
func (r Rate) String() string { return string(r.Append(nil)) }

// Append appends the rate in USD per million tokens.
func (r Rate) Append(dst []byte) []byte { return AppendDecimal(dst, int64(r), rateDecimals) }

// AppendDecimal appends v divided by ten to the power of places, exactly, without trailing zeros or exponent.
// v is not negative, and places is at most 9.
func AppendDecimal(dst []byte, v int64, places int) []byte {
	n, scale := uint64(max(v, 0)), uint64(1)
	for range places {
		scale *= 10
	}
	dst = strconv.AppendUint(dst, n/scale, 10)
	fraction := uint32(n % scale)
	if fraction == 0 {
		return dst
	}
	for fraction%10 == 0 {
		fraction /= 10
		places--
	}
	dst = append(append(dst, '.'), "000000000"[:places]...)
	for i := len(dst) - 1; fraction > 0; i-- {
		dst[i] = byte('0' + fraction%10)
		fraction /= 10
	}
	return dst
}

// clip keeps hostile input out of messages.
func clip(s string) string { return s[:min(len(s), 40)] }
