package catalogue

import (
	"errors"
	"fmt"
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
// v is not negative.
func AppendDecimal(dst []byte, v int64, places int) []byte {
	var digits [20]byte
	i := len(digits)
	for n := max(v, 0); n > 0 || len(digits)-i <= places; n /= 10 {
		i--
		digits[i] = byte('0' + n%10)
	}
	point := len(digits) - places
	end := len(digits)
	for end > point && digits[end-1] == '0' {
		end--
	}
	dst = append(dst, digits[i:point]...)
	if end > point {
		dst = append(dst, '.')
		dst = append(dst, digits[point:end]...)
	}
	return dst
}

// clip keeps hostile input out of messages.
func clip(s string) string { return s[:min(len(s), 40)] }
