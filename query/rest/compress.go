package rest

import (
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

// minCompressed is the size in bytes below which a response is sent as it is: it fits into one packet either way.
const minCompressed = 1024

// Compress returns h with its responses compressed by gzip for clients that accept it. It is the outermost handler, so
// that problems are compressed too. zstd is left out: no client of this tier has asked for it.
func Compress(h http.Handler) (http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(minCompressed), gzhttp.EnableZstd(false), gzhttp.ContentTypeFilter(compressible))
	if err != nil {
		return nil, fmt.Errorf("query: compress responses: %w", err)
	}
	compressed := wrap(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// gzhttp compares the names of encodings and does not know the wildcard.
		if r.Header.Get("Accept-Encoding") == "*" {
			r.Header.Set("Accept-Encoding", "gzip")
		}
		compressed.ServeHTTP(w, r)
	}), nil
}

// compressible reports whether a response of this Content-Type gets smaller: text, JSON and scripts do, a PDF does not.
func compressible(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "javascript"))
}
