package schema

import (
	"errors"
	"strconv"
	"strings"
)

// NanoUSD is an amount of money in nano-dollars: 1 USD is 1 000 000 000. Costs
// are integers everywhere, so that sums are exact.
type NanoUSD int64

const nanoPerUSD = 1_000_000_000

// MaxEventCost is the highest cost one event may have: USD 1 000 000.
const MaxEventCost NanoUSD = 1_000_000 * nanoPerUSD

// The ways in which ParseUSD refuses an amount.
var (
	ErrNotAmount      = errors.New("must be a number of US dollars")
	ErrNegativeAmount = errors.New("must not be negative")
	ErrAmountTooLarge = errors.New("must be at most 1000000")
)

// ParseUSD reads a JSON number as US dollars without passing through a float.
// Digits beyond the ninth decimal are rounded half to even. It returns
// ErrNotAmount, ErrNegativeAmount, or ErrAmountTooLarge above MaxEventCost.
func ParseUSD(literal string) (NanoUSD, error) { return ParseUSDUpTo(literal, MaxEventCost) }

// ParseUSDUpTo is ParseUSD for amounts that may be as high as most: ErrAmountTooLarge
// then means above most, and its text is not for clients.
func ParseUSDUpTo(literal string, most NanoUSD) (NanoUSD, error) {
	digits, point, negative, err := splitDecimal(literal)
	if err != nil {
		return 0, err
	}
	if digits == "" {
		return 0, nil
	}
	if negative {
		return 0, ErrNegativeAmount
	}
	// The value is 0.digits * 10^point dollars; whole is how many of the
	// digits stand for whole nano-dollars.
	whole := point + 9
	if whole > maxDigits {
		return 0, ErrAmountTooLarge
	}
	if whole < 0 {
		return 0, nil
	}
	nano, err := roundDigits(digits, whole)
	if err != nil || nano > most || nano < 0 {
		return 0, ErrAmountTooLarge
	}
	return nano, nil
}

// splitDecimal returns the significant digits of a JSON number and the power of
// ten of its decimal point, counted from the first digit. Zero has no digits.
func splitDecimal(s string) (digits string, point int, negative bool, err error) {
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exponent, err = strconv.Atoi(s[i+1:])
		if err != nil || exponent > 1000 || exponent < -1000 {
			return "", 0, false, ErrNotAmount
		}
		mantissa = s[:i]
	}
	mantissa, negative = strings.CutPrefix(mantissa, "-")
	integer, fraction, hasFraction := strings.Cut(mantissa, ".")
	if !allDigits(integer) || hasFraction && !allDigits(fraction) {
		return "", 0, false, ErrNotAmount
	}
	digits = integer + fraction
	point = len(integer) + exponent
	for strings.HasPrefix(digits, "0") {
		digits, point = digits[1:], point-1
	}
	return strings.TrimRight(digits, "0"), point, negative, nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// maxDigits is how many digits an int64 may have.
const maxDigits = 19

// roundDigits returns the first whole digits as a number, padded with zeros and
// rounded half to even on what follows. whole is between 0 and maxDigits. One
// more than the largest int64 comes out negative.
func roundDigits(digits string, whole int) (NanoUSD, error) {
	kept, rest := digits, ""
	if len(digits) > whole {
		kept, rest = digits[:whole], digits[whole:]
	}
	kept += strings.Repeat("0", whole-len(kept))
	var n int64
	if kept != "" {
		var err error
		if n, err = strconv.ParseInt(kept, 10, 64); err != nil {
			return 0, err
		}
	}
	// rest has no trailing zeros, so "5" is exactly one half.
	if rest > "5" || rest == "5" && n%2 == 1 {
		n++
	}
	return NanoUSD(n), nil
}

// String returns the amount in dollars as an exact decimal without exponent and
// without trailing zeros: "0.0000075", "12", "-0.5".
func (n NanoUSD) String() string { return string(n.AppendText(nil)) }

// AppendText appends what String returns to dst.
func (n NanoUSD) AppendText(dst []byte) []byte {
	u := uint64(n)
	if n < 0 {
		dst = append(dst, '-')
		u = -u
	}
	dst = strconv.AppendUint(dst, u/nanoPerUSD, 10)
	fraction := uint32(u % nanoPerUSD)
	if fraction == 0 {
		return dst
	}
	places := 9
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

// MarshalJSON writes the amount as a JSON number of dollars.
func (n NanoUSD) MarshalJSON() ([]byte, error) { return n.AppendText(nil), nil }

// UnmarshalJSON reads a JSON number of dollars, as ParseUSD does.
func (n *NanoUSD) UnmarshalJSON(text []byte) error {
	v, err := ParseUSD(string(text))
	if err != nil {
		return err
	}
	*n = v
	return nil
}
