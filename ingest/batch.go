package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// maxBatchEvents is the most events of one batch.
const maxBatchEvents = 1000

// outcome is what came of one event of a batch: it, or why it was not recorded.
type outcome struct {
	admission
	err error
}

// batch answers POST /v1/track/batch. Each event is judged alone: a bad one never
// costs the others.
func (s *Server) batch(c *gin.Context) error {
	credential, err := s.authenticate(c.Request)
	if err != nil {
		return err
	}
	if err := s.limit(c, credential); err != nil {
		return err
	}
	split, err := splitterOf(c.Request)
	if err != nil {
		return err
	}
	body, err := readBody(c.Writer, c.Request, s.cfg.MaxBatchBytes)
	if err != nil {
		return err
	}
	defer releaseBody(body)
	texts, err := split(body)
	if err != nil {
		return err
	}
	if err := s.limitRest(c, credential, len(texts)); err != nil {
		return err
	}
	outcomes := make([]outcome, len(texts))
	for i, text := range texts {
		outcomes[i] = s.prepare(c.Request.Context(), text, credential.AccountID)
	}
	s.recordBatch(outcomes)
	s.replyBatch(c.Writer, outcomes)
	return nil
}

// prepare reads, prices and admits one event of a batch.
func (s *Server) prepare(ctx context.Context, text []byte, account schema.ID) outcome {
	if int64(len(text)) > s.cfg.MaxBodyBytes {
		return outcome{err: problem.New(problem.TooLarge, fmt.Sprintf("One event may have at most %d bytes.", s.cfg.MaxBodyBytes))}
	}
	var r request
	if err := decode(bytes.NewBuffer(text), &r); err != nil {
		return outcome{err: err}
	}
	a, err := s.admit(ctx, &r, account)
	return outcome{a, err}
}

// recordBatch writes the good events to Kafka in their order.
func (s *Server) recordBatch(outcomes []outcome) {
	good := make([]admission, 0, len(outcomes))
	at := make([]int, 0, len(outcomes))
	for i, o := range outcomes {
		if o.err == nil {
			good, at = append(good, o.admission), append(at, i)
		}
	}
	for i, err := range s.record(good...) {
		outcomes[at[i]].err = err
	}
}

func (s *Server) replyBatch(w http.ResponseWriter, outcomes []outcome) {
	results := make([]byte, 0, 320*len(outcomes))
	accepted := 0
	for i, o := range outcomes {
		if i > 0 {
			results = append(results, ',')
		}
		if o.err != nil {
			p := problem.From(o.err)
			s.metrics.refused.WithLabelValues(string(p.Code)).Inc()
			results = append(results, p.JSON("")...)
			continue
		}
		accepted++
		results = append(results, `{"status":200,"tracked":true,`...)
		results = append(appendFields(results, o.admission), '}')
	}
	body := make([]byte, 0, len(results)+64)
	body = append(body, `{"accepted":`...)
	body = strconv.AppendInt(body, int64(accepted), 10)
	body = append(body, `,"rejected":`...)
	body = strconv.AppendInt(body, int64(len(outcomes)-accepted), 10)
	body = append(body, `,"results":[`...)
	body = append(append(body, results...), "]}"...)
	status := http.StatusOK
	if accepted < len(outcomes) {
		status = http.StatusMultiStatus
	}
	reply(w, status, body)
}

// splitter cuts a body into the texts of its events.
type splitter func(*bytes.Buffer) ([][]byte, error)

func splitterOf(r *http.Request) (splitter, error) {
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/x-ndjson", "application/ndjson", "application/jsonl":
		return splitLines, nil
	}
	return splitArray, checkJSON(r)
}

// jsonSpace is what may stand around a JSON value.
const jsonSpace = " \t\r\n"

// splitLines takes each line that is not blank for an event.
func splitLines(body *bytes.Buffer) ([][]byte, error) {
	var texts [][]byte
	for line := range bytes.Lines(body.Bytes()) {
		if line = bytes.Trim(line, jsonSpace); len(line) > 0 {
			texts = append(texts, line)
		}
		if len(texts) > maxBatchEvents {
			break
		}
	}
	return texts, checkBatchLength(len(texts))
}

// splitArray cuts a JSON array into its elements. It is lenient about what is
// inside an element, which decode judges: only a body whose elements cannot be
// told apart is refused as a whole.
func splitArray(body *bytes.Buffer) ([][]byte, error) {
	all := body.Bytes()
	d := jsontext.NewDecoder(body, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '[' {
		return nil, problem.New(problem.Invalid, "The body must be a JSON array of events, or NDJSON with Content-Type: application/x-ndjson.")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, syntaxProblem(err)
	}
	var texts [][]byte
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return nil, syntaxProblem(err)
		}
		end := d.InputOffset()
		texts = append(texts, all[end-int64(len(value)):end])
		if len(texts) > maxBatchEvents {
			break
		}
	}
	if err := checkBatchLength(len(texts)); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, syntaxProblem(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, problem.New(problem.Invalid, "The body must hold one JSON array and nothing after it.")
	}
	return texts, nil
}

func checkBatchLength(n int) error {
	if n < 1 || n > maxBatchEvents {
		return problem.New(problem.Invalid, fmt.Sprintf("A batch holds 1 to %d events.", maxBatchEvents))
	}
	return nil
}
