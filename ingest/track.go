package ingest

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/ingest/decode"
)

// track answers POST /v1/track and POST /v1/events. The order of checks is the documented one: key, rate limit, body,
// caps, then the write to Kafka.
func (s *Server) track(c *gin.Context) error {
	in, err := s.receive(c, expected{s.limit, checkJSON, s.cfg.MaxBodyBytes})
	if err != nil {
		return err
	}
	defer in.close()
	b := s.newBatch(in.credential)
	err = decode.RequestFromJSON(&b.request, in.text())
	if err == nil {
		err = b.request.KeyFromHeader(c.Request.Header["Idempotency-Key"])
	}
	b.add(err)
	settled := b.record(c.Request.Context(), &in.memory)
	if err = b.records[0].Err; err == nil {
		b.answer = s.appendResult(c.Request.Context(), append(b.answer, '{'), &b.records[0])
		reply(c.Writer, http.StatusOK, b.answer)
	}
	if settled {
		b.release()
	}
	return err
}
