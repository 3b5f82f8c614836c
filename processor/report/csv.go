package report

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// csvHeader names the columns. The first column names the section of a line; columns without a meaning in that section are empty.
var csvHeader = []string{
	"section", "date", "agent", "provider", "model", "code", "events", "errors", "unpriced_events",
	"input_tokens", "output_tokens", "cache_read_tokens", "cost_usd", "previous_cost_usd", "refused_events", "refused_cost_usd", "detail",
}

// WriteCSV writes a statement as CSV, with all lines and all decimals.
func WriteCSV(s *Statement) []byte {
	// Sections follow each other in one table, as spreadsheets and scripts read one header only.
	w := &sheet{}
	w.line(csvHeader...)
	w.line("report", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", s.describe())
	w.figures("total", "", Line{Figures: s.Totals, Before: s.Previous.Cost})
	w.figures("previous", "", Line{Figures: s.Previous})
	loc := s.Location()
	for i := range s.Days {
		w.figures("day", s.Days[i].Start.In(loc).Format(time.DateOnly), Line{Figures: s.Days[i].Figures})
	}
	groups := []group{{"agent", s.ByAgent}, {"model", s.ByModel}}
	if s.GroupBy == byModel {
		slices.Reverse(groups)
	}
	for _, g := range groups {
		for i := range g.lines {
			w.figures(g.section, "", g.lines[i])
		}
	}
	for i := range s.Caps {
		c := &s.Caps[i]
		w.line("cap", "", c.Agent, "", "", codeOf(c.Agent), "", "", "", "", "", "", c.Spent.exact(), "", strconv.FormatInt(c.Refused, 10), c.RefusedCost.exact(),
			"limit "+c.Limit.exact()+" per "+c.Period+", resets "+strconv.FormatInt(c.Resets, 10))
	}
	for i := range s.Prices {
		p := &s.Prices[i]
		w.line("price", "", "", "", "", "", strconv.FormatInt(p.Events, 10), "", "", "", "", "", p.Cost.exact(), "", "", "", strings.TrimSpace(p.ID+" "+rates(p.Rates)))
	}
	return w.text
}

// group is a section of lines about agents or models. The one that the report is grouped by comes first.
type group struct {
	section string
	lines   []Line
}

// describe states which report, account and period the figures belong to.
func (s *Statement) describe() string {
	return strings.Join([]string{
		s.Title, s.AccountName, s.AccountID, s.ReportID, "from " + s.From.Format(time.RFC3339), "to " + s.To.Format(time.RFC3339),
		s.Timezone, "generated " + s.GeneratedAt.Format(time.RFC3339Nano), s.completeness(),
	}, "; ")
}

// completeness states whether everything that was accepted is in the figures.
func (s *Statement) completeness() string {
	switch {
	case s.Complete:
		return "complete"
	case s.CompleteUntil.IsZero():
		return "incomplete"
	}
	return "incomplete, complete until " + s.CompleteUntil.Format(time.RFC3339Nano) + " only"
}

// codeOf is the code that stands for a name in the PDF, empty where the name itself does.
func codeOf(name string) string {
	if _, lossy := cleaned(name); lossy {
		return code(name)
	}
	return ""
}

// sheet is a CSV on its way. Every field is quoted.
type sheet struct{ text []byte }

// figures writes a line of sums. Amounts have all of their decimals.
func (w *sheet) figures(section, date string, l Line) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	w.line(section, date, l.Agent, l.Provider, l.Model, codeOf(l.Agent+l.Model), number(l.Events), number(l.Errors), number(l.Unpriced),
		l.InputTokens.Sum.String(), l.OutputTokens.Sum.String(), l.CacheTokens.Sum.String(), l.Cost.exact(), l.Before.exact(),
		number(l.Refused), l.RefusedCost.exact(), "")
}

// line writes a row. Fields are made harmless for spreadsheets, which take what begins with = or + for a formula.
func (w *sheet) line(fields ...string) {
	for i, field := range fields {
		if i > 0 {
			w.text = append(w.text, ',')
		}
		w.text = append(w.text, '"')
		w.text = append(w.text, strings.ReplaceAll(schema.SpreadsheetText(strings.ToValidUTF8(field, "\ufffd")), `"`, `""`)...)
		w.text = append(w.text, '"')
	}
	w.text = append(w.text, "\r\n"...)
}
