package report

import (
	"sync"

	"github.com/go-fonts/dejavu/dejavusanscondensed"
	"github.com/go-fonts/dejavu/dejavusanscondensedbold"
	"golang.org/x/image/font/sfnt"
)

// The one family of the document, in two weights. It has glyphs for the scripts of Europe, Hebrew, Arabic and more. Those of
// East Asia are drawn as strokes.
const (
	family  = "dejavu"
	regular = ""
	bold    = "B"
)

// glyphs marks the runes that both weights can show. It is made once, from the fonts in the binary.
var glyphs = sync.OnceValue(func() *[0x10000]bool {
	// A rune that one weight lacks would vanish from headings or from rows.
	var both [0x10000]bool
	for _, ttf := range [][]byte{dejavusanscondensed.TTF, dejavusanscondensedbold.TTF} {
		font, err := sfnt.Parse(ttf)
		if err != nil {
			panic("BUG: the embedded font cannot be read: " + err.Error())
		}
		var buffer sfnt.Buffer
		for r := range both {
			glyph, err := font.GlyphIndex(&buffer, rune(r))
			both[r] = err == nil && glyph != 0 && (both[r] || &ttf[0] == &dejavusanscondensed.TTF[0])
		}
	}
	return &both
})

// hasGlyph reports whether the document can show a rune. The PDF library fails on any above U+FFFF.
func hasGlyph(r rune) bool { return r >= 0 && r < 0x10000 && glyphs()[r] }
