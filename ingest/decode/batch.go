package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/schema/problem"
)

// MaxBatchEvents is the largest number of events of one batch.
const MaxBatchEvents = 1000

// jsonSpace is what may stand around a JSON value.
const jsonSpace = " \t\r\n"

// Lines calls event with each line of NDJSON that is not blank.
func Lines(body []byte, event func(text []byte)) error {
	n := 0
	for line := range bytes.Lines(body) {
		if line = bytes.Trim(line, jsonSpace); len(line) == 0 {
			continue
		}
		if n++; n > MaxBatchEvents {
			break
		}
		event(line)
	}
	return checkLength(n)
}

// Array calls event with the text of each element of a JSON array. It is lenient about what is inside of an element,
// so that only a body whose elements cannot be separated is refused as a whole.
func Array(body []byte, event func(text []byte)) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '[' {
		return problem.New(problem.Invalid, "The body must be a JSON array of events, or NDJSON with Content-Type: application/x-ndjson.")
	}
	if _, err := d.ReadToken(); err != nil {
		return syntaxProblem(err)
	}
	n := 0
	for d.PeekKind() != ']' {
		text, err := d.ReadValue()
		if err != nil {
			return syntaxProblem(err)
		}
		if n++; n > MaxBatchEvents {
			break
		}
		event(text)
	}
	if err := checkLength(n); err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return syntaxProblem(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return problem.New(problem.Invalid, "The body must hold one JSON array and nothing after it.")
	}
	return nil
}

func checkLength(n int) error {
	if n < 1 || n > MaxBatchEvents {
		return problem.New(problem.Invalid, fmt.Sprintf("A batch holds 1 to %d events.", MaxBatchEvents))
	}
	return nil
}
