package report

// column is a column of a table.
type column struct {
	title string
	width float64
	align align
	// bar draws the row's share instead of text.
	bar bool
}

// rowHeight is in millimetres.
const rowHeight = 5.3

// table draws rows with a head that every page repeats.
type table struct {
	*canvas
	columns []column
}

// table begins a table with room for its head and two rows. The widths of the columns add up to that of the page.
func (c *canvas) table(columns ...column) *table {
	t := &table{c, columns}
	t.need(3 * rowHeight)
	t.head()
	return t
}

// head draws the titles of the columns and a line below them.
func (t *table) head() {
	t.font(bold, 7.5, grey)
	t.y += rowHeight
	x := margin
	for _, col := range t.columns {
		if !col.bar {
			t.text(x+1, t.y-1.6, col.width-2, col.align, col.title)
		}
		x += col.width
	}
	t.line(margin, t.y, margin+width, t.y, grey)
}

// row draws a row. There are as many cells as columns; share is the length of the bar, from 0 to 1.
func (t *table) row(share float64, cells ...string) { t.draw(regular, share, cells) }

// total draws the last row.
func (t *table) total(cells ...string) { t.draw(bold, -1, cells) }

// more draws how many things have no row of their own, if there are any.
func (t *table) more(n int, thing string) {
	if n > 0 {
		t.row(0, append([]string{"and " + plural(n, "more "+thing)}, make([]string, len(t.columns)-1)...)...)
	}
}

// draw draws a row. Figures are shrunk to fit and other texts cut.
func (t *table) draw(style string, share float64, cells []string) {
	if t.need(rowHeight) {
		t.head()
	}
	if style == bold {
		t.fill(margin, t.y, width, rowHeight, pale)
	}
	t.y += rowHeight
	t.font(style, 8, ink)
	x := margin
	for i, col := range t.columns {
		switch {
		case col.bar && share > 0:
			t.fill(x+1, t.y-3.9, max(0.2, min(1, share)*(col.width-2)), 2.6, accent)
		case col.align == right:
			t.figure(x+1, t.y-1.6, col.width-2, right, cells[i])
		case !col.bar:
			t.text(x+1, t.y-1.6, col.width-2, col.align, cells[i])
		}
		x += col.width
	}
	t.line(margin, t.y, margin+width, t.y, rule)
}
