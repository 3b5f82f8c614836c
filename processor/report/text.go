package report

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/unicode/runenames"
)

// box stands for a letter that the document cannot show.
const box = '□'

// cleaned is a text that can be drawn: on one line, without what moves or hides text, with emoji in words, and with a box for
// each letter that cannot be shown. lossy reports whether it differs from the text: two such texts may look the same.
func cleaned(text string) (clean string, lossy bool) {
	var b strings.Builder
	// Any run of spaces and line breaks becomes one space, and none at the beginning and the end.
	space := false
	for _, r := range norm.NFC.String(strings.ToValidUTF8(text, string(unicode.ReplacementChar))) {
		var shown string
		switch {
		case unicode.IsSpace(r), unicode.Is(unicode.Z, r):
			space = true
			continue
		case unicode.Is(unicode.C, r), unicode.Is(unicode.Variation_Selector, r), isSkinTone(r):
			continue // Controls, direction overrides, joiners, private use.
		case canShow(r):
			shown = string(r)
		case unicode.Is(unicode.S, r):
			shown = inWords(r)
		default:
			shown = string(box)
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteString(shown)
	}
	return b.String(), b.String() != text
}

// canShow reports whether the document can show a rune.
func canShow(r rune) bool { return hasGlyph(r) || isStroked(r) }

// isSkinTone reports whether a rune only colours the emoji before it.
func isSkinTone(r rune) bool { return r >= 0x1f3fb && r <= 0x1f3ff }

// inWords is what Unicode calls a symbol, such as [party popper].
func inWords(r rune) string {
	if name := runenames.Name(r); name != "" && name[0] != '<' {
		return "[" + strings.ToLower(strings.TrimPrefix(name, "REGIONAL INDICATOR SYMBOL ")) + "]"
	}
	return string(box)
}

// code is a short name for a text that is not shown as it is. The CSV has it too, next to the text.
func code(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "#" + hex.EncodeToString(sum[:3])
}

// label is how a name that a client chose is shown: cleaned, never empty, and with its code when the font lacks some of it.
func label(name string) string {
	clean, lossy := cleaned(name)
	switch {
	case name == "":
		return "(none)"
	case clean == "":
		return "(not printable) " + code(name)
	case lossy:
		return clean + " " + code(name)
	}
	return clean
}
