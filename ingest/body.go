package ingest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readBody returns the body, decompressed, in a buffer that the caller gives to
// releaseBody once nothing refers to its bytes. What it and the rest of the request need is reserved before it is used.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, m *record.Memory) (*bytes.Buffer, error) {
	// The compressed body may not be larger than the limit either.
	if r.ContentLength > limit {
		return nil, bodyError(&http.MaxBytesError{Limit: limit}, limit)
	}
	if err := m.Reserve(requestBytes + copies*max(0, r.ContentLength)); err != nil {
		return nil, err
	}
	var src io.Reader = r.Body
	if r.ContentLength < 0 {
		src = http.MaxBytesReader(w, r.Body, limit)
	}
	switch strings.ToLower(r.Header.Get("Content-Encoding")) {
	case "", "identity":
		if r.ContentLength < 0 {
			src = counted{src, m}
		}
	case "gzip":
		if err := m.Reserve(gzipBytes); err != nil {
			return nil, err
		}
		zr, err := gzip.NewReader(src)
		if err != nil {
			return nil, bodyError(err, limit)
		}
		// One byte more than allowed distinguishes a full body from one that is too long.
		src = counted{io.LimitReader(zr, limit+1), m}
	default:
		return nil, problem.New(problem.UnsupportedMediaType, "Content-Encoding must be gzip or left out.")
	}
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	if size := r.ContentLength; size > 0 && size <= maxKept {
		buf.Grow(int(size) + bytes.MinRead) // which ReadFrom wants to see free at the end
	}
	_, err := buf.ReadFrom(src)
	if err == nil && int64(buf.Len()) > limit {
		err = &http.MaxBytesError{Limit: limit}
	}
	if err != nil {
		releaseBody(buf)
		if errors.Is(err, record.ErrBusy) {
			return nil, err
		}
		return nil, bodyError(err, limit)
	}
	return buf, nil
}

func releaseBody(buf *bytes.Buffer) {
	if buf.Cap() <= maxKept {
		buffers.Put(buf)
	}
}

// bodyError says what is wrong with a body that could not be read.
func bodyError(err error, limit int64) error {
	if errors.As(err, new(*http.MaxBytesError)) {
		return problem.New(problem.TooLarge, fmt.Sprintf("The body may have at most %d bytes after decompression.", limit))
	}
	return problem.New(problem.Invalid, "The body could not be read whole. Check its length and its Content-Encoding.")
}

// What a request reserves. Each byte of a body counts for the body, for what is read of it and for its record.
const (
	requestBytes = 16 << 10 // its connection's buffers, its goroutine, and a small event
	gzipBytes    = 48 << 10 // the decompressor
	eventBytes   = 1 << 10  // of a batch, besides its texts
	copies       = 3
	// maxKept is the largest buffer that is used again, so that large bodies do not hold memory for ever.
	maxKept = 256 << 10
)

// counted reads a body whose size is not known and reserves what comes.
type counted struct {
	io.Reader
	memory *record.Memory
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if full := c.memory.Reserve(int64(n) * copies); full != nil {
		return 0, full
	}
	return n, err
}

// checkCharset refuses a body that is declared as something other than UTF-8.
func checkCharset(r *http.Request) error {
	if schema.OtherCharset(r.Header.Get("Content-Type")) {
		return problem.New(problem.UnsupportedMediaType, "Send the body in UTF-8: leave charset out of Content-Type, or make it utf-8.")
	}
	return nil
}

// checkJSON refuses a body that is declared as something other than JSON. A
// request without Content-Type is taken as JSON.
func checkJSON(r *http.Request) error {
	value := r.Header.Get("Content-Type")
	if value == "" || value == "application/json" {
		return nil
	}
	if err := checkCharset(r); err != nil {
		return err
	}
	mediaType, _, _ := strings.Cut(value, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	if mediaType == "application/json" || strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json") {
		return nil
	}
	return problem.New(problem.UnsupportedMediaType, "Send the event as JSON with Content-Type: application/json.")
}
