package report

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/go-fonts/dejavu/dejavusanscondensed"
	"github.com/go-fonts/dejavu/dejavusanscondensedbold"
	"github.com/go-pdf/fpdf"
)

// Millimetres of an A4 page.
const (
	pageWidth  = 210.0
	pageHeight = 297.0
	margin     = 15.0
	width      = pageWidth - 2*margin
	bottom     = pageHeight - 20
)

// colour is red, green, blue.
type colour [3]int

// The colours of the document.
var (
	ink    = colour{31, 41, 51}
	grey   = colour{107, 119, 133}
	rule   = colour{217, 222, 228}
	accent = colour{38, 99, 200}
	pale   = colour{241, 245, 250}
	amber  = colour{176, 106, 16}
)

// canvas draws on pages. Text that is given to it was cleaned.
type canvas struct {
	pdf   *fpdf.Fpdf
	y     float64 // of the next line, from the top
	style string  // of the font
}

// newCanvas returns a document with its first page. at is the time in its metadata.
func newCanvas(title, author string, at time.Time) *canvas {
	pdf := fpdf.New("P", "mm", "A4", "")
	// The same statement is to give the same bytes.
	pdf.SetCatalogSort(true)
	pdf.SetCreationDate(at)
	pdf.SetModificationDate(at)
	pdf.SetProducer("Outlay", true)
	pdf.SetTitle(title, true)
	pdf.SetAuthor(author, true)
	pdf.SetLang("en")
	pdf.SetAutoPageBreak(false, 0)
	pdf.SetMargins(margin, margin, margin)
	pdf.SetCellMargin(0)
	pdf.AddUTF8FontFromBytes(family, regular, bytes.Clone(dejavusanscondensed.TTF))
	pdf.AddUTF8FontFromBytes(family, bold, bytes.Clone(dejavusanscondensedbold.TTF))
	c := &canvas{pdf: pdf}
	c.newPage()
	return c
}

// newPage begins a page below its upper margin.
func (c *canvas) newPage() {
	c.pdf.AddPage()
	c.y = margin
}

// need begins a new page when less than height is left on this one, and reports whether it did.
func (c *canvas) need(height float64) bool {
	if c.y+height <= bottom {
		return false
	}
	c.newPage()
	return true
}

// font sets the font of what is drawn next. points is its size.
func (c *canvas) font(style string, points float64, col colour) {
	c.style = style
	c.pdf.SetFont(family, style, points)
	c.pdf.SetTextColor(col[0], col[1], col[2])
}

// align is where a text stands in its room.
type align int

const (
	left align = iota
	right
	centre
)

// text draws a line of text with its baseline at y, clipped to the room from x.
func (c *canvas) text(x, y, room float64, a align, text string) {
	text = visual(joined(c.fit(text, room)))
	switch a {
	case right:
		x += room - c.width(text)
	case centre:
		x += (room - c.width(text)) / 2
	}
	for len(text) > 0 {
		run, drawn := firstRun(text)
		if drawn {
			c.strokes(x, y, run)
		} else {
			c.pdf.Text(x, y, run)
		}
		x += c.width(run)
		text = text[len(run):]
	}
}

// firstRun returns the first part of a text that is all drawn as strokes or all not.
func firstRun(text string) (run string, drawn bool) {
	for i, r := range text {
		is := isStroked(r)
		if i == 0 {
			drawn = is
		} else if is != drawn {
			return text[:i], drawn
		}
	}
	return text, drawn
}

// strokes draws a text of letters that the font lacks. It is there as text, too, which is not seen but found and copied.
func (c *canvas) strokes(x, y float64, text string) {
	// points is the size for the library, size the same in millimetres.
	points, size := c.pdf.GetFontSize()
	r, g, b := c.pdf.GetTextColor()
	c.pdf.SetDrawColor(r, g, b)
	c.pdf.SetLineWidth(strokeWidth(c.style) * size / dotsPerEm)
	c.pdf.SetLineCapStyle("round")
	for _, letter := range text {
		d := dotsOf(letter)
		drawStrokes(c.pdf, &d, x, y, size)
		room := float64(d.width) * size / dotsPerEm
		// The font's width of a letter that it lacks is another, and who copies the text would find gaps.
		c.pdf.SetFontSize(points * room / c.pdf.GetStringWidth(string(letter)))
		c.pdf.SetTextRenderingMode(invisible)
		c.pdf.Text(x, y, string(letter))
		c.pdf.SetTextRenderingMode(filled)
		c.pdf.SetFontSize(points)
		x += room
	}
	c.pdf.SetLineCapStyle("butt")
}

// How text is drawn.
const (
	filled    = 0
	invisible = 3
)

// width is how wide a line of text is.
func (c *canvas) width(text string) (w float64) {
	for len(text) > 0 {
		run, drawn := firstRun(text)
		text = text[len(run):]
		if !drawn {
			w += c.pdf.GetStringWidth(run)
			continue
		}
		_, size := c.pdf.GetFontSize()
		for _, letter := range run {
			d := dotsOf(letter)
			w += float64(d.width) * size / dotsPerEm
		}
	}
	return w
}

// figure draws a text that is never cut, in smaller letters where it needs them: a figure with digits missing is a wrong one.
func (c *canvas) figure(x, y, room float64, a align, text string) {
	points, _ := c.pdf.GetFontSize()
	if w := c.width(text); w > room {
		c.pdf.SetFontSize(points * room / w * 0.98)
		defer c.pdf.SetFontSize(points)
	}
	c.text(x, y, room, a, text)
}

// fit cuts what does not fit into a room out of the middle of a text: names that begin alike often differ at their end, and a
// label's code is there.
func (c *canvas) fit(text string, room float64) string {
	if c.width(text) <= room {
		return text
	}
	const ellipsis = "…"
	room -= c.width(ellipsis)
	runes := []rune(text)
	// head and tail are the parts of the text that are kept.
	head, tail := 0, len(runes)
	for used, fromHead := 0.0, 0.0; head < tail; {
		// The end gets two fifths of the room.
		next := runes[tail-1]
		ofHead := fromHead <= 0.6*used
		if ofHead {
			next = runes[head]
		}
		w := c.width(string(next))
		if used += w; used > room {
			break
		}
		if ofHead {
			head, fromHead = head+1, fromHead+w
		} else {
			tail--
		}
	}
	return string(runes[:head]) + ellipsis + string(runes[tail:])
}

// paragraph draws text in lines of the whole width.
func (c *canvas) paragraph(text string, points float64, col colour) {
	height := points * 0.48
	c.font(regular, points, col)
	for _, line := range c.wrap(text, width) {
		c.need(height)
		c.y += height
		c.text(margin, c.y-1, width, left, line)
	}
}

// wrap cuts a text into lines at its spaces.
func (c *canvas) wrap(text string, room float64) []string {
	// A word that is wider than the line is cut when it is drawn.
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && c.width(longer) > room {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	return append(lines, line)
}

// fill draws a rectangle from its upper left corner, in millimetres.
func (c *canvas) fill(x, y, w, h float64, col colour) {
	c.pdf.SetFillColor(col[0], col[1], col[2])
	c.pdf.Rect(x, y, w, h, "F")
}

// line draws a thin line, in millimetres.
func (c *canvas) line(x1, y1, x2, y2 float64, col colour) {
	c.pdf.SetDrawColor(col[0], col[1], col[2])
	c.pdf.SetLineWidth(0.2)
	c.pdf.Line(x1, y1, x2, y2)
}

// heading begins a section that needs at least this much room below it.
func (c *canvas) heading(text string, room float64) {
	c.y += 9
	if c.need(8 + room) {
		c.y += 5
	}
	c.font(bold, 12, ink)
	c.text(margin, c.y, width, left, text)
	c.pdf.Bookmark(text, 0, c.y-5)
	c.y += 3
}

// footers writes account and page number on every page, when it is known how many there are.
func (c *canvas) footers(text string) {
	pages := c.pdf.PageCount()
	for page := 1; page <= pages; page++ {
		c.pdf.SetPage(page)
		// The library leaves out what it believes to be set, which on this page it may not be.
		c.font(regular, 7.25, grey)
		c.font(regular, 7.5, grey)
		c.line(margin, pageHeight-14, pageWidth-margin, pageHeight-14, rule)
		c.text(margin, pageHeight-10, width-30, left, text)
		c.text(pageWidth-margin-30, pageHeight-10, 30, right, fmt.Sprintf("Page %d of %d", page, pages))
	}
}

// bytes ends the document and returns it.
func (c *canvas) bytes() ([]byte, error) {
	var out bytes.Buffer
	if err := c.pdf.Output(&out); err != nil {
		return nil, fmt.Errorf("write the document: %w", err)
	}
	return out.Bytes(), nil
}
