// Package cors lets pages of other origins call the HTTP tiers from a browser. It is off
// unless an operator names origins: without it browsers keep such pages away, because
// no answer allows them in.
package cors

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Config names the origins that are allowed in.
type Config struct {
	// Origins are such as "https://app.example.com": a scheme, a host and a port if it
	// is not the scheme's own. "*" allows every origin. Defaults to none.
	Origins []string `name:"cors-origin" placeholder:"ORIGIN" help:"Origins whose pages may call this API from a browser, such as https://app.example.com; may be given several times or separated by commas, and * allows all. None by default."`
}

// Any as an origin allows all.
const Any = "*"

// Validate returns an error that names the flag to mend.
func (c Config) Validate() error {
	for _, origin := range c.Origins {
		u, err := url.Parse(origin)
		if origin != Any && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != origin) {
			return errors.New("--cors-origin must be a scheme and a host such as https://app.example.com, without a path, or *")
		}
	}
	return nil
}

// What a page may use. Cookies are not among it: credentials are in Authorization.
const (
	methods = "GET, HEAD, POST, PUT, PATCH, DELETE"
	headers = "Authorization, Content-Type, Content-Encoding, Idempotency-Key, X-Request-Id"
	exposed = "X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, Content-Disposition"
	// maxAge is how many seconds a browser may keep the answer to a preflight request.
	maxAge = "600"
)

// Handler returns next behind an answer to browsers: preflight requests of the origins are
// answered here, and every other answer to a page of theirs says that it may read it.
// Requests from elsewhere reach next as they are. Without origins it is next itself.
func (c Config) Handler(next http.Handler) http.Handler {
	if len(c.Origins) == 0 {
		return next
	}
	all := slices.Contains(c.Origins, Any)
	origins := make([]string, len(c.Origins))
	for i, origin := range c.Origins {
		origins[i] = strings.ToLower(origin)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, origin := w.Header(), r.Header.Get("Origin")
		// A cache must not give one origin what was answered to another.
		h.Add("Vary", "Origin")
		if origin == "" || !all && !slices.Contains(origins, strings.ToLower(origin)) {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", methods)
			h.Set("Access-Control-Allow-Headers", headers)
			h.Set("Access-Control-Max-Age", maxAge)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.Set("Access-Control-Expose-Headers", exposed)
		next.ServeHTTP(w, r)
	})
}
