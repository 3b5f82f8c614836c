package query

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// csvWriter answers CSV line by line. Text that a spreadsheet would take for a
// formula gets an apostrophe in front.
type csvWriter struct {
	w    *csv.Writer
	line []string
	err  error
}

func newCSV(c *request, fileName string, header []string) *csvWriter {
	c.Header("Content-Type", "text/csv; charset=utf-8; header=present")
	c.Header("Content-Disposition", `attachment; filename="`+fileName+`"`)
	c.Status(http.StatusOK)
	w := &csvWriter{w: csv.NewWriter(c.Writer)}
	// RFC 4180 wants CR LF.
	w.w.UseCRLF = true
	w.err = w.w.Write(header)
	return w
}

// text adds a field that is safe as it is.
func (w *csvWriter) text(field string) { w.line = append(w.line, field) }

// name adds a field that a client chose.
func (w *csvWriter) name(field string) { w.text(schema.SpreadsheetText(field)) }

// names adds fields that a client chose; nil is an empty field.
func (w *csvWriter) names(names ...*string) {
	for _, name := range names {
		if name == nil {
			w.text("")
			continue
		}
		w.name(*name)
	}
}

// group adds those names that are not nil.
func (w *csvWriter) group(names ...*string) {
	for _, name := range names {
		if name != nil {
			w.name(*name)
		}
	}
}

func (w *csvWriter) number(numbers ...int64) {
	for _, n := range numbers {
		w.text(strconv.FormatInt(n, 10))
	}
}

func (w *csvWriter) sum(sums ...*usage.Sum) {
	for _, s := range sums {
		w.text(s.String())
	}
}

// optional adds numbers; nil is an empty field.
func (w *csvWriter) optional(numbers ...*int64) {
	for _, n := range numbers {
		if n == nil {
			w.text("")
			continue
		}
		w.number(*n)
	}
}

func (w *csvWriter) endLine() {
	if w.err == nil {
		w.err = w.w.Write(w.line)
	}
	w.line = w.line[:0]
}

// send sends what was written. The error is that of a client that hung up.
func (w *csvWriter) send() error {
	w.w.Flush()
	if w.err == nil {
		w.err = w.w.Error()
	}
	if w.err != nil {
		return fmt.Errorf("write csv: %w", w.err)
	}
	return nil
}
