package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/ingest/otlp"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// batchOf is the events of a batch as they were read: each is priced before the next
// is looked at. Those that are at fault have an error.
type batchOf struct {
	server  *Server
	account schema.ID
	key     account.Grant // of the request
	now     time.Time     // of arrival
	// maxBytes bounds the text of one event.
	maxBytes int64

	spans   otlp.Reader // of a request of spans
	request request     // the one being read
	// outcomes and events belong to each other. An outcome gets its event only
	// when no more are read, since they move.
	outcomes []outcome
	events   []schema.Event
}

// spareBatches are used again, with their memory.
var spareBatches = sync.Pool{New: func() any { return new(batchOf) }}

func (s *Server) newBatch(of schema.ID, key account.Grant) *batchOf {
	b := spareBatches.Get().(*batchOf)
	b.server, b.account, b.key, b.now, b.maxBytes = s, of, key, s.arrival(), s.cfg.MaxBodyBytes
	return b
}

// add notes the event that was read into the request, or what is wrong with it, and
// makes the request ready for the next.
func (b *batchOf) add(err error) {
	i := len(b.events)
	b.events = slices.Grow(b.events, 1)[:i+1]
	if err == nil {
		err = mayTrack(&b.key, b.request.agent.value)
	}
	o := outcome{err: err}
	if err == nil {
		o.admission = b.server.event(&b.events[i], &b.request, b.account, b.now)
	}
	b.outcomes = append(b.outcomes, o)
	b.request.next()
}

// again forgets what was read.
func (b *batchOf) again() {
	clear(b.outcomes)
	b.outcomes, b.events = b.outcomes[:0], b.events[:0]
	b.request.next()
}

// maxKeptEvents keeps large batches from holding memory for ever.
const maxKeptEvents = 512

// release gives b back once it was answered and nothing refers to its events.
func (b *batchOf) release() {
	b.again()
	b.key = account.Grant{}
	b.spans.Reset()
	if b.request.memory.empty() && cap(b.events) <= maxKeptEvents {
		spareBatches.Put(b)
	}
}

// batchReader returns how the body is to be read. An error means that it is no
// batch as a whole.
func batchReader(r *http.Request) (func(*batchOf, []byte) error, error) {
	contentType := r.Header.Get("Content-Type")
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/x-ndjson", "application/ndjson", "application/jsonl":
		if schema.OtherCharset(contentType) {
			return nil, errCharset
		}
		return (*batchOf).lines, nil
	}
	return (*batchOf).array, checkJSON(r)
}

// jsonSpace is what may stand around a JSON value.
const jsonSpace = " \t\r\n"

// lines takes each line that is not blank for an event.
func (b *batchOf) lines(body []byte) error {
	for line := range bytes.Lines(body) {
		if line = bytes.Trim(line, jsonSpace); len(line) > 0 {
			b.event(line)
		}
		if len(b.outcomes) > maxBatchEvents {
			break
		}
	}
	return b.checkLength()
}

// array reads a JSON array. Only a body whose elements cannot be separated is
// refused as a whole.
func (b *batchOf) array(body []byte) error {
	if b.plainArray(body) {
		return b.checkLength()
	}
	b.again()
	return b.anyArray(body)
}

// plainArray reads an array whose elements scan understands. It returns false at
// the first other one.
func (b *batchOf) plainArray(body []byte) bool {
	s := scanner{in: body}
	if !s.mark('[') {
		return false
	}
	for len(b.outcomes) <= maxBatchEvents {
		start := s.at
		if !s.event(&b.request) || int64(s.at-start) > b.maxBytes {
			return false
		}
		b.add(b.request.finish(nil))
		if more, ok := s.more(']'); !more {
			s.space()
			return ok && s.at == len(s.in)
		}
	}
	return true
}

// anyArray cuts an array into its elements. It is lenient about what is inside an
// element, which decode judges.
func (b *batchOf) anyArray(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '[' {
		return problem.New(problem.Invalid, "The body must be a JSON array of events, or NDJSON with Content-Type: application/x-ndjson.")
	}
	if _, err := d.ReadToken(); err != nil {
		return syntaxProblem(err)
	}
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return syntaxProblem(err)
		}
		end := d.InputOffset()
		b.event(body[end-int64(len(value)) : end])
		if len(b.outcomes) > maxBatchEvents {
			break
		}
	}
	if err := b.checkLength(); err != nil {
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

// event reads one event.
func (b *batchOf) event(text []byte) {
	if int64(len(text)) > b.maxBytes {
		b.add(problem.New(problem.TooLarge, fmt.Sprintf("One event may have at most %d bytes.", b.maxBytes)))
		return
	}
	b.add(decode(text, &b.request))
}

func (b *batchOf) checkLength() error {
	if n := len(b.outcomes); n < 1 || n > maxBatchEvents {
		return problem.New(problem.Invalid, fmt.Sprintf("A batch holds 1 to %d events.", maxBatchEvents))
	}
	return nil
}
