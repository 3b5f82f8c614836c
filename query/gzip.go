package query

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzip"
)

// minCompressed is the size in bytes below which an answer of known length is
// sent as it is.
const minCompressed = 1024

// compress sends answers gzipped to those who ask for it. It sits inside measure
// and outside rescue, so that the status is counted and a problem compressed too.
func (s *Server) compress(c *gin.Context) {
	c.Writer.Header().Add("Vary", "Accept-Encoding")
	if !acceptsGzip(c.GetHeader("Accept-Encoding")) {
		return
	}
	w := &gzipWriter{ResponseWriter: c.Writer, pool: &s.gzips}
	c.Writer = w
	c.Next()
	w.close()
	c.Writer = w.ResponseWriter
}

// acceptsGzip reads the Accept-Encoding header.
func acceptsGzip(header string) bool {
	for item := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(item, ";")
		if name = strings.TrimSpace(name); !strings.EqualFold(name, "gzip") && name != "*" {
			continue
		}
		q, has := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(params, " ", "")), "q=")
		if !has {
			return true
		}
		weight, err := strconv.ParseFloat(q, 64)
		return err == nil && weight > 0
	}
	return false
}

// gzipWriter decides at the first byte whether to compress.
type gzipWriter struct {
	gin.ResponseWriter
	pool    *sync.Pool
	gz      *gzip.Writer
	decided bool
}

func (w *gzipWriter) Write(p []byte) (int, error) {
	w.decide()
	if w.gz != nil {
		return w.gz.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

func (w *gzipWriter) WriteString(text string) (int, error) { return w.Write([]byte(text)) }

// Flush sends what was written so far, for streams.
func (w *gzipWriter) Flush() {
	w.decide()
	if w.gz != nil {
		_ = w.gz.Flush()
	}
	w.ResponseWriter.Flush()
}

func (w *gzipWriter) WriteHeaderNow() {
	w.decide()
	w.ResponseWriter.WriteHeaderNow()
}

// Unwrap leads http.ResponseController to the connection.
func (w *gzipWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *gzipWriter) decide() {
	if w.decided {
		return
	}
	w.decided = true
	h := w.Header()
	if !compressible(w.Status(), h) {
		return
	}
	h.Del("Content-Length")
	h.Set("Content-Encoding", "gzip")
	w.gz = w.pool.Get().(*gzip.Writer)
	w.gz.Reset(w.ResponseWriter)
}

func compressible(status int, h http.Header) bool {
	if status == http.StatusNoContent || status == http.StatusNotModified || h.Get("Content-Encoding") != "" {
		return false
	}
	if n, err := strconv.Atoi(h.Get("Content-Length")); err == nil && n < minCompressed {
		return false
	}
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return false
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "javascript")
}

func (w *gzipWriter) close() {
	if w.gz == nil {
		return
	}
	// A client that hung up is no error of ours.
	_ = w.gz.Close()
	w.gz.Reset(nil)
	w.pool.Put(w.gz)
	w.gz = nil
}
