package schema

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// NormalName returns a text that names something (agent, model, provider, user_id, tag, step or session_id) in
// Unicode's form NFC, so that two texts that differ in nothing but how an accent is encoded are one name. Case stays
// as it is. A name is normalised before it is checked, stored, or looked up.
func NormalName(text string) string {
	if plainASCII(text) {
		return text
	}
	return norm.NFC.String(text)
}

// CheckName notes what is wrong with an optional name of at most limit characters that was normalised.
func (f *Faults) CheckName(field, name string, limit int) {
	if name == "" {
		return
	}
	if message := NameFault(name, limit); message != "" {
		f.Add(field, message)
	}
}

// NameFault returns what is wrong with a name of at most limit characters, or "". Besides what TextFault refuses, a
// name has no character that is invisible or changes the direction of writing: with one, two names that look alike
// would have two caps.
func NameFault(name string, limit int) string {
	if message := TextFault(name, limit); message != "" {
		return message
	}
	if plainASCII(name) {
		return ""
	}
	switch r := firstHidden(name); r {
	case 0:
		return ""
	case combiningGraphemeJoiner:
		// Normalising puts one behind every 30th mark.
		return "must not contain U+034F, nor more than 30 combining marks in a row"
	default:
		return fmt.Sprintf("must not contain characters that are invisible or change the direction of writing, such as U+%04X", r)
	}
}

// IsName reports whether text is a name of at most limit characters, or empty, and in normal form already.
func IsName(text []byte, limit int) bool {
	return norm.NFC.IsNormal(text) && NameFault(string(text), limit) == ""
}

// Characters that the rules name one by one.
const (
	combiningGraphemeJoiner = '\u034f'
	brailleBlank            = '\u2800'
	enclosingKeycap         = '\u20e3'
)

// hidden are the characters without a form of their own: format characters (zero width, soft hyphen, byte order mark,
// bidirectional controls, tags), fillers, and the separators of lines and paragraphs. Those that are drawn around the
// characters after them are not hidden.
var hidden = []*unicode.RangeTable{unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Zl, unicode.Zp}

// firstHidden returns the first character of name that is not seen or turns others around, or 0.
func firstHidden(name string) rune {
	var before rune
	for i, r := range name {
		switch {
		case r < utf8.RuneSelf:
		case unicode.Is(unicode.Variation_Selector, r):
			if !selects(before, r, name[i+utf8.RuneLen(r):]) {
				return r
			}
		case r == brailleBlank, unicode.In(r, hidden...) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r):
			return r
		}
		before = r
	}
	return 0
}

// selects reports whether a variation selector chooses a form of the character before it, as after says what follows.
// Anywhere else it is not seen.
func selects(before, selector rune, after string) bool {
	switch {
	case selector < '\u1900': // The free variation selectors of Mongolian.
		return unicode.Is(unicode.Mongolian, before) && unicode.IsLetter(before)
	case selector == '\ufe0e', selector == '\ufe0f': // As a text, as an emoji.
		next, _ := utf8.DecodeRuneInString(after)
		return before > unicode.MaxLatin1 && unicode.In(before, unicode.So, unicode.Sm) || isEmojiPunctuation(before) ||
			next == enclosingKeycap && isKeycap(before)
	case selector <= '\ufe02':
		return unicode.In(before, unicode.Han, unicode.Sm)
	case selector >= '\U000e0100': // Of ideographs.
		return unicode.Is(unicode.Han, before)
	}
	return false
}

// isEmojiPunctuation reports whether r is a letter or punctuation mark that is an emoji as well.
func isEmojiPunctuation(r rune) bool {
	switch r {
	case '©', '®', '‼', '⁉', 'ℹ', '〰':
		return true
	}
	return false
}

func isKeycap(r rune) bool { return r >= '0' && r <= '9' || r == '#' || r == '*' }
