package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Most lines of a table; the rest is summed up in one. With them a document has at most 100 pages.
const (
	maxAgentLines    = 2500
	maxModelLines    = 500
	maxCapLines      = 400
	maxUnpricedLines = 200
	maxPriceLines    = 200
)

// Draw draws a statement as a PDF.
func Draw(s *Statement) (file []byte, err error) {
	defer func() {
		// The library panics on what it cannot write; nothing known gets there.
		if p := recover(); p != nil {
			err = fmt.Errorf("draw report %s: panic: %v", s.ReportID, p)
		}
	}()
	// The metadata of the document gets the same care as its text.
	title, _ := cleaned(s.Title)
	d := &drawing{canvas: newCanvas(title, "Outlay", s.GeneratedAt), s: s, loc: s.Location()}
	d.front()
	d.totals()
	d.daily()
	groups := []func(){d.agents, d.models}
	if s.GroupBy == byModel {
		slices.Reverse(groups)
	}
	groups[0]()
	groups[1]()
	d.caps()
	d.unpriced()
	d.prices()
	d.notes()
	d.footers(fmt.Sprintf("%s  ·  %s  ·  %s", label(s.AccountName), label(s.Title), d.period(s.From, s.To)))
	return d.bytes()
}

// drawing is a statement on its way to paper.
type drawing struct {
	*canvas
	s   *Statement
	loc *time.Location
}

// front draws what the document is.
func (d *drawing) front() {
	d.fill(margin, margin-3, width, 1.2, accent)
	d.y = margin + 4
	d.font(bold, 8, accent)
	d.text(margin, d.y, 60, left, "OUTLAY")
	d.font(regular, 7.5, grey)
	d.text(margin+60, d.y, width-60, right, d.s.ReportID)
	d.font(bold, 20, ink)
	lines := d.wrap(label(d.s.Title), width)
	for _, line := range lines[:min(2, len(lines))] {
		d.y += 9
		d.text(margin, d.y, width, left, line)
	}
	d.y += 7
	d.font(regular, 11, ink)
	d.text(margin, d.y, width, left, d.period(d.s.From, d.s.To)+"  ·  "+d.s.Timezone)
	d.y += 6
	d.font(regular, 8.5, grey)
	d.text(margin, d.y, width, left, "Account: "+label(d.s.AccountName)+"  ·  "+d.s.AccountID)
	d.y += 4.5
	d.text(margin, d.y, width, left, "Generated at "+stamp(d.s.GeneratedAt, d.loc))
	if !d.s.Complete {
		d.y += 5.5
		d.font(bold, 9, amber)
		d.text(margin, d.y, width, left, d.s.incomplete(d.loc))
		d.font(regular, 8.5, grey)
	}
	if len(d.s.Agents) > 0 {
		d.y += 4.5
		names := make([]string, len(d.s.Agents))
		for i, agent := range d.s.Agents {
			names[i] = label(agent)
		}
		d.text(margin, d.y, width, left, fmt.Sprintf("Only %s: %s", plural(len(names), "agent"), strings.Join(names, ", ")))
	}
	d.y += 4
}

// plural writes a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// period writes a period in its zone. One of whole days is written by its first and its last.
func (d *drawing) period(from, to time.Time) string {
	from, to = from.In(d.loc), to.In(d.loc)
	if !startsDay(from) || !startsDay(to) {
		return from.Format("2 Jan 2006 15:04") + " – " + to.Format("2 Jan 2006 15:04")
	}
	last := to.Add(-time.Hour)
	if last.Format(time.DateOnly) == from.Format(time.DateOnly) {
		return from.Format("2 January 2006")
	}
	return from.Format("2 January 2006") + " – " + last.Format("2 January 2006")
}

// startsDay reports whether t is the first moment of its day, which a change of the clock may put an hour later.
func startsDay(t time.Time) bool { return t.Add(-time.Minute).Day() != t.Day() }

// stamp writes a time to the second with its zone.
func stamp(t time.Time, loc *time.Location) string {
	return t.In(loc).Format("2 January 2006 15:04:05 MST")
}

// totals draws the figures that matter most, large, and all of them with their change.
func (d *drawing) totals() {
	now, before := &d.s.Totals, &d.s.Previous
	// Three tiles with two gaps of 4 mm.
	tile := (width - 8) / 3
	for i, t := range []struct{ name, figure, below string }{
		{"Spend", now.Cost.dollars(), against(change(&before.Cost, &now.Cost))},
		{"Events", count(now.Events), against(changeOf(before.Events, now.Events))},
		{"Refused spend", now.RefusedCost.dollars(), fmt.Sprintf("%s events refused by a cap", count(now.Refused))},
	} {
		x := margin + float64(i)*(tile+4)
		d.fill(x, d.y, tile, 22, pale)
		d.fill(x, d.y, 0.8, 22, accent)
		d.font(regular, 8, grey)
		d.text(x+4, d.y+5.5, tile-6, left, t.name)
		d.font(bold, 16, ink)
		d.figure(x+4, d.y+13.5, tile-6, left, t.figure)
		d.font(regular, 7.5, grey)
		d.text(x+4, d.y+19, tile-6, left, t.below)
	}
	d.y += 24
	from := d.s.From.Add(-d.s.To.Sub(d.s.From))
	t := d.table(column{"", 52, left, false}, column{"This period", 44, right, false}, column{"Period before", 44, right, false}, column{"Change", 40, right, false})
	sum := func(name string, before, now *amount, show func(*amount) string) {
		t.row(0, name, show(now), show(before), change(before, now))
	}
	number := func(name string, before, now int64) {
		t.row(0, name, count(now), count(before), changeOf(before, now))
	}
	sum("Spend", &before.Cost, &now.Cost, (*amount).dollars)
	number("Events", before.Events, now.Events)
	number("Errors", before.Errors, now.Errors)
	sum("Input tokens", &before.InputTokens, &now.InputTokens, (*amount).String)
	sum("    of which read from a cache", &before.CacheTokens, &now.CacheTokens, (*amount).String)
	sum("Output tokens", &before.OutputTokens, &now.OutputTokens, (*amount).String)
	number("Events without a known price", before.Unpriced, now.Unpriced)
	number("Refused events", before.Refused, now.Refused)
	sum("Refused spend", &before.RefusedCost, &now.RefusedCost, (*amount).dollars)
	d.y += 4
	d.font(regular, 7.5, grey)
	d.text(margin, d.y, width, left, "The period before is of the same length: "+d.period(from, d.s.From)+".")
	if now.Unpriced > 0 {
		d.y += 4
		d.font(regular, 7.5, amber)
		d.text(margin, d.y, width, left, "The spend lacks "+events(now.Unpriced)+" without a known price, listed below.")
	}
}

// against puts a change into words.
func against(change string) string {
	if change == noChange || change == isNew {
		return "nothing in the period before"
	}
	return change + " against the period before"
}

// changeOf is change for numbers of events.
func changeOf(before, after int64) string {
	b, a := amountOf(before), amountOf(after)
	return change(&b, &a)
}

// daily draws the chart of the days. Without any spend there is no scale for it.
func (d *drawing) daily() {
	d.heading("Spend by day", chartHeight+14)
	if d.s.Totals.Cost.isZero() {
		d.paragraph("Nothing was spent.", 8.5, grey)
		return
	}
	d.chart(d.s.Days, d.loc)
}
