package ingest

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/schema/problem"
)

// maxBatchEvents is the most events of one batch.
const maxBatchEvents = 1000

// batch answers POST /v1/track/batch. Each event is judged alone: a bad one never
// costs the others.
func (s *Server) batch(c *gin.Context) error {
	if err := s.room.enter(); err != nil {
		return err
	}
	defer s.room.leave()
	credential, err := s.authenticate(c)
	if err != nil {
		return err
	}
	if err := s.limit(c, credential); err != nil {
		return err
	}
	read, err := batchReader(c.Request)
	if err != nil {
		return err
	}
	h := s.room.hold()
	defer h.release()
	body, err := readBody(c.Writer, c.Request, s.cfg.MaxBatchBytes, h)
	if err != nil {
		return err
	}
	defer releaseBody(body)
	skipByteOrderMark(body)
	b := s.newBatch(credential.AccountID, credential.Grant)
	if err := read(b, body.Bytes()); err != nil {
		b.release()
		return err
	}
	if err := h.take(int64(len(b.outcomes)) * eventBytes); err != nil {
		b.release()
		return err
	}
	if err := s.limitRest(c, credential, len(b.outcomes)); err != nil {
		b.release()
		return err
	}
	s.admitAll(c.Request.Context(), b)
	settled := s.record(b.outcomes, h)
	s.replyBatch(c.Request.Context(), c.Writer, b.outcomes, c.Writer.Header().Get("X-Request-Id"))
	if settled {
		b.release()
	}
	return nil
}

// admitAll charges the caps of the events that are good.
func (s *Server) admitAll(ctx context.Context, b *batchOf) {
	for i := range b.outcomes {
		if o := &b.outcomes[i]; o.err == nil {
			o.event = &b.events[i]
			o.err = s.admit(ctx, &o.admission)
		}
	}
	s.confirm(ctx, b.outcomes)
}

// replyBatch answers with what came of each event. requestID goes into the problems of
// events that were not recorded.
func (s *Server) replyBatch(ctx context.Context, w http.ResponseWriter, outcomes []outcome, requestID string) {
	accepted := 0
	for i := range outcomes {
		if outcomes[i].err == nil {
			accepted++
		}
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer releaseBody(buf)
	buf.Reset()
	buf.Grow(384 * (len(outcomes) + 1))
	body := append(buf.AvailableBuffer(), `{"accepted":`...)
	body = strconv.AppendInt(body, int64(accepted), 10)
	body = append(body, `,"rejected":`...)
	body = strconv.AppendInt(body, int64(len(outcomes)-accepted), 10)
	body = append(body, `,"results":[`...)
	for i := range outcomes {
		o := &outcomes[i]
		if i > 0 {
			body = append(body, ',')
		}
		if o.err != nil {
			p := problem.From(o.err)
			s.metrics.refused.WithLabelValues(string(p.Code)).Inc()
			body = append(body, p.JSON(requestID)...)
			continue
		}
		body = append(body, `{"status":200,"tracked":true,`...)
		body = append(s.appendFields(ctx, body, &o.admission), '}')
	}
	body = append(body, "]}"...)
	status := http.StatusOK
	if accepted < len(outcomes) {
		status = http.StatusMultiStatus
	}
	reply(w, status, body)
}
