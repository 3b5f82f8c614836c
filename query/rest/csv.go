package rest

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// CSV answers CSV line by line. Text that a spreadsheet would take for a
// formula gets an apostrophe in front.
type CSV struct {
	w    *csv.Writer
	line []string
	err  error
}

// NewCSV begins a response that browsers save under fileName. header is its first line.
func NewCSV(c *Request, fileName string, header []string) *CSV {
	c.Header("Content-Type", "text/csv; charset=utf-8; header=present")
	c.Header("Content-Disposition", `attachment; filename="`+fileName+`"`)
	c.Status(http.StatusOK)
	w := &CSV{w: csv.NewWriter(c.Writer)}
	// RFC 4180 wants CR LF.
	w.w.UseCRLF = true
	w.err = w.w.Write(header)
	return w
}

// Text adds fields that are safe as they are: ours, numbers and times.
func (w *CSV) Text(fields ...string) { w.line = append(w.line, fields...) }

// Name adds a field that a client chose, which must not be a spreadsheet's formula.
func (w *CSV) Name(field string) { w.Text(schema.SpreadsheetText(field)) }

// Names adds fields that a client chose; nil is an empty field.
func (w *CSV) Names(names ...*string) {
	for _, name := range names {
		if name == nil {
			w.Text("")
			continue
		}
		w.Name(*name)
	}
}

// Group adds those names that are not nil.
func (w *CSV) Group(names ...*string) {
	for _, name := range names {
		if name != nil {
			w.Name(*name)
		}
	}
}

// Number adds whole numbers.
func (w *CSV) Number(numbers ...int64) {
	for _, n := range numbers {
		w.Text(strconv.FormatInt(n, 10))
	}
}

// Sum adds sums with all their digits.
func (w *CSV) Sum(sums ...*usage.Sum) {
	for _, s := range sums {
		w.Text(s.String())
	}
}

// Optional adds numbers; nil is an empty field.
func (w *CSV) Optional(numbers ...*int64) {
	for _, n := range numbers {
		if n == nil {
			w.Text("")
			continue
		}
		w.Number(*n)
	}
}

// EndLine ends the line. An error is kept for Send.
func (w *CSV) EndLine() {
	if w.err == nil {
		w.err = w.w.Write(w.line)
	}
	w.line = w.line[:0]
}

// Send sends what was written. The error is that of a client that hung up.
func (w *CSV) Send() error {
	w.w.Flush()
	if w.err == nil {
		w.err = w.w.Error()
	}
	if w.err != nil {
		return fmt.Errorf("write csv: %w", w.err)
	}
	return nil
}
