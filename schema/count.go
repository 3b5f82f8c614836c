package schema

import "strconv"

// CountFault is what is wrong with a number that ParseCount refuses.
const CountFault = "must be an integer from 0 to 9007199254740991"

// ParseCount reads a JSON number as a count of tokens or milliseconds. "12",
// "12.0" and "1.2e1" are the same count; ok is false for a fraction, a negative
// number or one above MaxCount.
func ParseCount(literal string) (n int64, ok bool) {
	if n, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return n, n >= 0 && n <= MaxCount
	}
	digits, point, negative, err := splitDecimal(literal)
	if err != nil {
		return 0, false
	}
	if digits == "" {
		return 0, true
	}
	if negative || point < len(digits) || point > 16 {
		return 0, false
	}
	whole, err := roundDigits(digits, point)
	return int64(whole), err == nil && int64(whole) <= MaxCount
}
