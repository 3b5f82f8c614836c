package ingest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/ingest/decode"
	"github.com/outlayhq/outlay/ingest/otlp"
	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// trackBatch answers POST /v1/track/batch. Each event is checked and recorded by itself: an invalid one never costs the
// others.
func (s *Server) trackBatch(c *gin.Context) error {
	split := decode.Array
	in, err := s.receive(c, expected{s.limit, func(r *http.Request) error {
		if !isNDJSON(r) {
			return checkJSON(r)
		}
		split = decode.Lines
		return checkCharset(r)
	}, s.cfg.MaxBatchBytes})
	if err != nil {
		return err
	}
	defer in.close()
	b := s.newBatch(in.credential)
	if err := s.readBatch(c, in, b, split); err != nil {
		b.release()
		return err
	}
	settled := b.record(c.Request.Context(), &in.memory)
	s.replyBatch(c.Request.Context(), c.Writer, b, c.Writer.Header().Get("X-Request-Id"))
	if settled {
		b.release()
	}
	return nil
}

// readBatch reads the events of a body. The error is one of the whole request.
func (s *Server) readBatch(c *gin.Context, in *incoming, b *batch, split func([]byte, func([]byte)) error) error {
	if err := split(in.text(), b.read); err != nil {
		return err
	}
	if err := in.memory.Reserve(int64(len(b.records)) * eventBytes); err != nil {
		return err
	}
	return s.limitRest(c, in.credential, len(b.records))
}

// isNDJSON reports whether a body is declared as NDJSON, under any of its names.
func isNDJSON(r *http.Request) bool {
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/x-ndjson", "application/ndjson", "application/jsonl":
		return true
	}
	return false
}

// batch is the events of one request as they are read, of POST /v1/track just one.
type batch struct {
	server  *Server
	account schema.ID
	key     account.Grant
	now     time.Time // of arrival, in microseconds
	spans   otlp.Reader
	request decode.Request // the one being read
	// records and events belong to each other. A record refers to its event only when no more are read, because they
	// move.
	records []record.Event
	events  []schema.Event
	answer  []byte
}

// spareBatches are used again, with their memory.
var spareBatches = sync.Pool{New: func() any { return new(batch) }}

func (s *Server) newBatch(of account.Credential) *batch {
	b := spareBatches.Get().(*batch)
	b.server, b.account, b.key, b.now = s, of.AccountID, of.Grant, s.now().UTC().Truncate(time.Microsecond)
	return b
}

// read reads an event of JSON.
func (b *batch) read(text []byte) {
	if limit := b.server.cfg.MaxBodyBytes; int64(len(text)) > limit {
		b.add(problem.New(problem.TooLarge, fmt.Sprintf("One event may have at most %d bytes.", limit)))
		return
	}
	b.add(decode.RequestFromJSON(&b.request, text))
}

// add adds the event that was read into the request, or the error of reading it, and makes the request ready for the
// next.
func (b *batch) add(err error) {
	i := len(b.events)
	b.events = slices.Grow(b.events, 1)[:i+1]
	if err == nil {
		err = mayTrack(&b.key, b.request.Agent())
	}
	r := record.Event{Err: err}
	if err == nil {
		r.Invalid = b.request.Event(&b.events[i], b.account, b.server.prices(b.account), b.now)
		r.Warnings = b.request.Warnings()
		if b.events[i].IdempotencyKey != "" {
			r.Fingerprint = b.request.Fingerprint(b.server.recorder.Seed())
		}
	}
	b.records = append(b.records, r)
	b.request.Reset()
}

// record records the events. It reports whether nothing refers to them any more.
func (b *batch) record(ctx context.Context, m *record.Memory) (settled bool) {
	for i := range b.records {
		if r := &b.records[i]; r.Err == nil {
			r.Event = &b.events[i]
		}
	}
	return b.server.recorder.Record(ctx, b.records, m)
}

// reset forgets what was read.
func (b *batch) reset() {
	clear(b.records)
	b.records, b.events, b.answer = b.records[:0], b.events[:0], b.answer[:0]
	b.key = account.Grant{}
	b.spans.Reset()
}

// maxKeptEvents is the largest batch that is used again, so that large ones do not hold memory for ever.
const maxKeptEvents = 512

// release makes b free for another request, when it was answered and nothing refers to its events.
func (b *batch) release() {
	b.reset()
	if b.request.Release() && cap(b.events) <= maxKeptEvents && cap(b.answer) <= maxKept {
		spareBatches.Put(b)
	}
}

// replyBatch answers with the outcome of each event. requestID goes into the problems of
// events that were not recorded.
func (s *Server) replyBatch(ctx context.Context, w http.ResponseWriter, b *batch, requestID string) {
	accepted := 0
	for i := range b.records {
		if b.records[i].Err == nil {
			accepted++
		}
	}
	body := append(b.answer, `{"accepted":`...)
	body = strconv.AppendInt(body, int64(accepted), 10)
	body = append(body, `,"rejected":`...)
	body = strconv.AppendInt(body, int64(len(b.records)-accepted), 10)
	body = append(body, `,"results":[`...)
	for i := range b.records {
		e := &b.records[i]
		if i > 0 {
			body = append(body, ',')
		}
		if e.Err != nil {
			p := problem.From(e.Err)
			s.metrics.refused.WithLabelValues(string(p.Code)).Inc()
			body = append(body, p.JSON(requestID)...)
			continue
		}
		body = append(body, `{"status":200,`...)
		body = s.appendResult(ctx, body, e)
	}
	b.answer = append(body, "]}"...)
	status := http.StatusOK
	if accepted < len(b.records) {
		status = http.StatusMultiStatus
	}
	reply(w, status, b.answer)
}
