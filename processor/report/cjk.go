package report

import (
	"image"
	"sync"
	"unicode"

	"github.com/go-pdf/fpdf"
	"github.com/hajimehoshi/bitmapfont/v3"
	"golang.org/x/image/math/fixed"
)

// The scripts of East Asia are drawn as strokes: an outline font of them would be as large as the rest of the program, a bitmap
// font is small, and its strokes are one dot wide, so lines through the dots look the same at any size.

// dotsPerEm is the height of a letter in dots.
const dotsPerEm = 12

// stroke is a line between two dots, in dots from the left end of the baseline, downwards.
type stroke struct{ x1, y1, x2, y2 int }

// dots are those of one letter.
type dots struct {
	mask   image.Image
	at     image.Point // of the upper left dot in mask
	width  int
	height int
}

// stroked marks the runes that are drawn as strokes. It is computed once, when the first name needs it.
var stroked = sync.OnceValue(func() *[0x10000]bool {
	var found [0x10000]bool
	for r := rune(0x1100); r < 0x10000; r++ {
		if unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !hasGlyph(r) {
			d := dotsOf(r)
			found[r] = !d.empty()
		}
	}
	return &found
})

// isStroked reports whether a rune is drawn as strokes.
func isStroked(r rune) bool { return r >= 0x1100 && r < 0x10000 && !hasGlyph(r) && stroked()[r] }

// dotsOf returns the dots of a rune below U+10000.
func dotsOf(r rune) dots {
	room, mask, at, _, _ := bitmapfont.Face.Glyph(fixed.P(0, 0), r)
	return dots{mask, at, room.Dx(), room.Dy()}
}

// set reports whether there is a dot. Outside of the letter there is none.
func (d *dots) set(x, y int) bool {
	if x < 0 || y < 0 || x >= d.width || y >= d.height {
		return false
	}
	_, _, _, alpha := d.mask.At(d.at.X+x, d.at.Y+y).RGBA()
	return alpha > 0
}

// empty reports whether the letter has no dot, as where the font lacks it.
func (d *dots) empty() bool {
	for y := range d.height {
		for x := range d.width {
			if d.set(x, y) {
				return false
			}
		}
	}
	return true
}

// strokes joins the dots: those in a row, those in a column, and those that touch at a corner only. A dot alone is a stroke, too.
func (d *dots) strokes() (list []stroke) {
	for _, way := range []image.Point{{X: 1}, {Y: 1}, {X: 1, Y: 1}, {X: -1, Y: 1}} {
		for y := range d.height {
			for x := range d.width {
				if !d.set(x, y) || d.joined(x-way.X, y-way.Y, way) {
					continue // Nothing begins here.
				}
				endX, endY := x, y
				for d.joined(endX, endY, way) {
					endX, endY = endX+way.X, endY+way.Y
				}
				if endX != x || endY != y || way.Y == 0 && d.alone(x, y) {
					list = append(list, stroke{x, y - dotsPerEm, endX, endY - dotsPerEm})
				}
			}
		}
	}
	return list
}

// joined reports whether a line goes on from a dot this way. It does not cut a corner.
func (d *dots) joined(x, y int, way image.Point) bool {
	if !d.set(x, y) || !d.set(x+way.X, y+way.Y) {
		return false
	}
	return way.X == 0 || way.Y == 0 || !d.set(x+way.X, y) && !d.set(x, y+way.Y)
}

// alone reports whether a dot touches no other, as the point of a punctuation mark does not.
func (d *dots) alone(x, y int) bool {
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			if (dx != 0 || dy != 0) && d.set(x+dx, y+dy) {
				return false
			}
		}
	}
	return true
}

// strokeWidth is how wide strokes are, in dots, so that they look as dark as the letters beside them.
func strokeWidth(style string) float64 {
	if style == bold {
		return 1.25
	}
	return 0.9
}

// drawStrokes draws a letter with its baseline at y. size is the height of the font, in the unit of the page.
func drawStrokes(pdf *fpdf.Fpdf, d *dots, x, y, size float64) {
	// One path for the whole letter keeps the document small.
	dot := size / dotsPerEm
	for _, s := range d.strokes() {
		pdf.MoveTo(x+(float64(s.x1)+0.5)*dot, y+float64(s.y1)*dot)
		pdf.LineTo(x+(float64(s.x2)+0.5)*dot, y+float64(s.y2)*dot)
	}
	pdf.DrawPath("D")
}
