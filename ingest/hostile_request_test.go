package ingest

import (
	"strings"
	"testing"
)

// requests are what is tried besides the body of one event.
func requests(t *testing.T) []hostile {
	t.Helper()
	const event = `{"agent":"a"}`
	gz := zip(t, event)
	bomb := zip(t, `{"agent":"`+strings.Repeat("a", 8<<20)+`"}`)
	gzipped := []string{"Content-Encoding", "gzip"}
	return []hostile{
		{name: "gzip", body: gz, headers: gzipped, status: 200},
		{name: "gzip in capitals", body: gz, headers: []string{"Content-Encoding", "GZIP"}, status: 200},
		{name: "gzip bomb of 8 MiB", body: bomb, headers: gzipped, status: 413},
		{name: "gzip bomb in a batch", path: "/v1/track/batch", body: bomb, headers: gzipped, status: 413},
		{name: "gzip of just too much", body: zip(t, padded(256<<10+1)), headers: gzipped, status: 413},
		{name: "gzip of just enough", body: zip(t, padded(256<<10)), headers: gzipped, status: 200},
		{name: "gzip cut off", body: gz[:len(gz)-6], headers: gzipped, status: 422},
		{name: "gzip header only", body: gz[:10], headers: gzipped, status: 422},
		{name: "gzip with a wrong sum", body: gz[:len(gz)-8] + "\x00\x00\x00\x00" + gz[len(gz)-4:], headers: gzipped, status: 422},
		{name: "gzip and garbage", body: gz + "garbage", headers: gzipped, status: 422},
		{name: "gzip twice", body: zip(t, gz), headers: gzipped, status: 422},
		{name: "gzip of two parts", body: zip(t, `{"agent":`) + zip(t, `"a"}`), headers: gzipped, status: 200},
		{name: "gzip of nothing", body: zip(t, ""), headers: gzipped, status: 422},
		{name: "gzip of nothing at all", body: "", headers: gzipped, status: 422},
		{name: "said to be gzip", body: event, headers: gzipped, status: 422},
		{name: "gzip that was not said", body: gz, status: 422},
		{name: "two encodings", body: gz, headers: []string{"Content-Encoding", "gzip, gzip"}, status: 415},
		{name: "deflate", body: event, headers: []string{"Content-Encoding", "deflate"}, status: 415},
		{name: "unknown encoding", body: event, headers: []string{"Content-Encoding", "\"; rm -rf /"}, status: 415},
		{name: "identity", body: event, headers: []string{"Content-Encoding", "identity"}, status: 200},

		{name: "text", body: event, headers: []string{"Content-Type", "text/plain"}, status: 415},
		{name: "form", body: "agent=a", headers: []string{"Content-Type", "multipart/form-data; boundary=x"}, status: 415},
		{name: "nearly JSON", body: event, headers: []string{"Content-Type", "application/jsonp"}, status: 415},
		{name: "JSON of a kind", body: event, headers: []string{"Content-Type", "application/cloudevents+json; charset=utf-8"}, status: 200},
		{name: "byte order mark", body: "\ufeff" + event, status: 200},
		{name: "byte order mark, token counts of the other endpoint", path: "/v1/events", body: "\ufeff" + event, status: 200},
		{name: "gzip of a byte order mark", body: zip(t, "\ufeff"+event), headers: gzipped, status: 200},
		{name: "UTF-8", body: event, headers: []string{"Content-Type", "application/json; charset=UTF-8"}, status: 200},
		{name: "UTF-8 in quotes", body: event, headers: []string{"Content-Type", `application/json;x=1;Charset="utf8" `}, status: 200},
		{name: "Latin-1", body: event, headers: []string{"Content-Type", "application/json; charset=iso-8859-1"}, status: 415},
		{name: "UTF-16", body: event, headers: []string{"Content-Type", "application/json;charset=UTF-16"}, status: 415},
		{name: "two charsets", body: event, headers: []string{"Content-Type", "application/json;charset=utf-8;charset=utf-16"}, status: 415},
		{name: "no name of a charset", body: event, headers: []string{"Content-Type", "application/json;charset="}, status: 415},
		{name: "lines in Latin-1", path: "/v1/track/batch", body: event, headers: []string{"Content-Type", "application/x-ndjson; charset=latin1"}, status: 415},
		{name: "lines in UTF-8", path: "/v1/track/batch", body: event, headers: []string{"Content-Type", "application/x-ndjson; charset=utf-8"}, status: 200},
		{name: "a check in Latin-1", path: "/v1/budgets/check", body: event, headers: []string{"Content-Type", "application/json; charset=latin1"}, status: 415},
		{name: "a check with a byte order mark", path: "/v1/budgets/check", body: "\ufeff" + event, status: 200},
		{name: "JSON in capitals", body: event, headers: []string{"Content-Type", "APPLICATION/JSON"}, status: 200},
		{name: "no type", body: event, headers: []string{"Content-Type", ""}, status: 200},

		{name: "no key", body: event, headers: []string{"Authorization", ""}, status: 401},
		{name: "Basic", body: event, headers: []string{"Authorization", "Basic b3V0bGF5Og=="}, status: 401},
		{name: "scheme only", body: event, headers: []string{"Authorization", "Bearer"}, status: 401},
		{name: "blank key", body: event, headers: []string{"Authorization", "Bearer  "}, status: 401},
		{name: "long key", body: event, headers: []string{"Authorization", "Bearer outlay_live_" + strings.Repeat("a", 5000)}, status: 401},
		{name: "a token", body: event, headers: []string{"Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0."}, status: 401},
		{name: "NUL in the key", body: event, headers: []string{"Authorization", "Bearer outlay_live_\u00a0\u00ff"}, status: 401},

		{name: "empty key header", body: event, headers: []string{"Idempotency-Key", " "}, status: 422},
		{name: "key header of 255", body: event, headers: []string{"Idempotency-Key", strings.Repeat("k", 255)}, status: 200},
		{name: "key header of 256", body: event, headers: []string{"Idempotency-Key", strings.Repeat("k", 256)}, status: 422},
		{name: "key header that is not UTF-8", body: event, headers: []string{"Idempotency-Key", "\xff\xfe"}, status: 422},
		{name: "key header with a tab", body: event, headers: []string{"Idempotency-Key", "a\tb"}, status: 422},
		{name: "key header against the body", body: field("idempotency_key", `"x"`), headers: []string{"Idempotency-Key", "y"}, status: 422},
		{name: "long request id", body: event, headers: []string{"X-Request-Id", strings.Repeat("x", 8000)}, status: 200},
		{name: "forwarded for", body: event, headers: []string{"X-Forwarded-For", "127.0.0.1, ::1"}, status: 200},
		{name: "method override", body: event, headers: []string{"X-HTTP-Method-Override", "DELETE"}, status: 200},

		{name: "GET", method: "GET", status: 405},
		{name: "PUT", method: "PUT", body: event, status: 405},
		{name: "DELETE", method: "DELETE", status: 405},
		{name: "PATCH", method: "PATCH", body: event, status: 405},
		{name: "OPTIONS", method: "OPTIONS", status: 405},
		{name: "TRACE", method: "TRACE", status: 405},
		{name: "a method of their own", method: "TRACK", body: event, status: 405},
		{name: "a method in small letters", method: "post", body: event, status: 405},

		{name: "trailing slash", path: "/v1/track/", body: event, status: 404},
		{name: "two slashes", path: "/v1//track", body: event, status: 404},
		{name: "capitals", path: "/V1/TRACK", body: event, status: 404},
		{name: "encoded letter", path: "/v1/%74rack", body: event, status: 200},
		{name: "encoded slash at the end", path: "/v1/track%2f", body: event, status: 404},
		{name: "encoded NUL", path: "/v1/track%00", body: event, status: 404},
		{name: "parent folder", path: "/v1/x/../track", body: event, status: 404},
		{name: "encoded parent folder", path: "/v1/x/%2e%2e/track", body: event, status: 404},
		{name: "parameter", path: "/v1/track;x=1", body: event, status: 404},
		{name: "query", path: "/v1/track?agent=b&agent=%00", body: event, status: 200},
		{name: "not UTF-8", path: "/v1/track%ff", body: event, status: 404},
		{name: "nowhere", path: "/", body: event, status: 404},
		{name: "metrics", path: "/metrics", method: "GET", status: 404},
		{name: "profiles", path: "/debug/pprof/", method: "GET", status: 404},
	}
}
