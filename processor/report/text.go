package report

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
)

// box stands for a rune that the font lacks.
const box = '□'

// cleaned is a text that can be drawn: on one line, without what moves or hides text, and with a box for each rune that the font
// lacks. lossy reports whether it differs from the text: two such texts may look the same.
func cleaned(text string) (clean string, lossy bool) {
	var b strings.Builder
	space := false
	for _, r := range strings.ToValidUTF8(text, string(unicode.ReplacementChar)) {
		switch {
		case unicode.IsSpace(r), unicode.Is(unicode.Z, r):
			space = true
			continue
		case unicode.Is(unicode.C, r), unicode.Is(unicode.Variation_Selector, r):
			continue // Controls, direction overrides, joiners, private use.
		case !hasGlyph(r):
			r = box
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return b.String(), b.String() != text
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
