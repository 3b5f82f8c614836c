package schema

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// SpreadsheetText returns a text that a client chose as a spreadsheet may open it: what
// the spreadsheet would take for a formula gets an apostrophe in front. Spaces and
// invisible characters before the sign, which some programs drop, make no difference,
// nor does the full-width or small form of it.
func SpreadsheetText(text string) string {
	sign, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(text, dropped))
	if strings.ContainsRune("=+-@\t\r\n＝＋－＠﹦﹢﹣﹫−", sign) {
		return "'" + text
	}
	return text
}

// dropped reports whether a program may leave out a character in front of a formula. The
// tab and the ends of lines are signs themselves.
func dropped(r rune) bool {
	return unicode.In(r, unicode.Zs, unicode.Cf) || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}
