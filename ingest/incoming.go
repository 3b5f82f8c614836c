package ingest

import (
	"bytes"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/schema/account"
)

// incoming is a request that passed the checks that all tracking endpoints share. The handler closes it.
type incoming struct {
	server     *Server
	credential account.Credential
	body       *bytes.Buffer
	memory     record.Memory
}

// expected is what an endpoint accepts.
type expected struct {
	// limit counts the request against the plan.
	limit func(*gin.Context, account.Credential) error
	// media returns an error for a Content-Type that is not accepted.
	media func(*http.Request) error
	// maxBytes is the largest body, decompressed.
	maxBytes int64
}

// receive checks and reads a request in the documented order: room for it, API key, rate limit, Content-Type, body.
func (s *Server) receive(c *gin.Context, want expected) (*incoming, error) {
	if err := s.recorder.Enter(); err != nil {
		return nil, err
	}
	in := &incoming{server: s}
	in.memory.Init(s.recorder.Capacity)
	if err := in.read(c, want); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

func (in *incoming) read(c *gin.Context, want expected) (err error) {
	if in.credential, err = in.server.authenticate(c); err != nil {
		return err
	}
	if err := want.limit(c, in.credential); err != nil {
		return err
	}
	if err := want.media(c.Request); err != nil {
		return err
	}
	in.body, err = readBody(c.Writer, c.Request, want.maxBytes, &in.memory)
	return err
}

// byteOrderMark is what some programs put in front of a text in UTF-8. It is no part of the text.
var byteOrderMark = []byte("\ufeff")

// text returns the body as text in UTF-8.
func (in *incoming) text() []byte { return bytes.TrimPrefix(in.body.Bytes(), byteOrderMark) }

// close frees what the request holds, except for the memory of events that Kafka has not acknowledged yet.
func (in *incoming) close() {
	if in.body != nil {
		releaseBody(in.body)
	}
	in.memory.Release()
	in.server.recorder.Leave()
}
