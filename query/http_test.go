package query_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/query"
)

// ask sends a request with headers.
func (w *world) ask(method, path, body string, headers ...string) *answer {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return w.do(request)
}

// An address that is not there is 404, a method that it does not take 405 with
// those it does, both as problems.
func TestUnknownAddressesAndMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for _, path := range []string{"/", "/v1", "/v1/event", "/v1/events/", "/V1/events", "/v2/events", "/v1//events", "/metrics", "/debug/pprof/", "/healthz"} {
		if refusal := w.alice.get(path).refused(http.StatusNotFound); refusal.Title != "Not found" {
			t.Errorf("GET %s: title %q", path, refusal.Title)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch} {
		answer := w.send(w.alice.token, method, "/v1/events", "")
		if refusal := answer.refused(http.StatusMethodNotAllowed); refusal.Title != "Method not allowed" || answer.header.Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("%s /v1/events = %+v, Allow %q", method, refusal, answer.header.Get("Allow"))
		}
	}
	w.send("", http.MethodGet, "/v1/auth/login", "").refused(http.StatusMethodNotAllowed)
}

// A caller's request id comes back when it can be shown, else a new one does.
func TestRequestID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for _, id := range []string{"abc-123", strings.Repeat("x", 128), "!~"} {
		if got := w.ask(http.MethodGet, "/nothing", "", "X-Request-Id", id).header.Get("X-Request-Id"); got != id {
			t.Errorf("X-Request-Id %q came back as %q", id, got)
		}
	}
	for _, id := range []string{"", "two words", strings.Repeat("x", 129), "ü"} {
		answer := w.ask(http.MethodGet, "/nothing", "", "X-Request-Id", id)
		got := answer.header.Get("X-Request-Id")
		if got == "" || got == id || !strings.Contains(string(answer.body), fmt.Sprintf("%q", got)) {
			t.Errorf("X-Request-Id %q came back as %q, which the problem does not name: %s", id, got, answer.body)
		}
	}
}

// Every answer, good or bad, tells browsers to keep their hands off.
func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for _, path := range []string{"/v1/events", "/nothing", "/openapi.json", "/v1/events?bad=1"} {
		header := w.alice.get(path).header
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("GET %s: %s = %q, want %q", path, name, got, want)
			}
		}
	}
	if got := w.alice.get("/v1/events").header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control = %q, want no-store", got)
	}
}

// A body in chunks is the last of its connection, so that nothing can hide behind it;
// one with a length is not.
func TestChunksEndTheConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for body, want := range map[io.Reader]bool{
		io.MultiReader(strings.NewReader(`{"email":"x"}`)): true,
		strings.NewReader(`{"email":"x"}`):                 false,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/auth/login", body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.Close != want {
			t.Errorf("a body of length %d: the connection ends: %t, want %t", request.ContentLength, response.Close, want)
		}
	}
}

// Answers are compressed for those who ask, and only for them.
func TestAnswersAreCompressedWhenAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for range 30 {
		w.store(w.alice.newEvent(nil))
	}
	plain := string(w.alice.get("/v1/events").body)
	ask := func(path, accept string) (*http.Response, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+w.alice.token)
		request.Header.Set("Accept-Encoding", accept)
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var body io.Reader = response.Body
		if response.Header.Get("Content-Encoding") == "gzip" {
			if body, err = gzip.NewReader(response.Body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(text)
	}
	for accept, want := range map[string]string{
		"gzip": "gzip", "br, gzip;q=0.5": "gzip", "*": "gzip", "identity": "", "gzip;q=0": "", "br": "", "": "",
	} {
		response, body := ask("/v1/events", accept)
		if got := response.Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q: Content-Encoding %q, want %q", accept, got, want)
		}
		if body != plain {
			t.Errorf("Accept-Encoding %q: another body", accept)
		}
		if got := response.Header.Get("Vary"); got != "Accept-Encoding" {
			t.Errorf("Vary = %q", got)
		}
	}
	// A small answer is not worth it.
	if response, _ := ask("/nothing", "gzip"); response.Header.Get("Content-Encoding") != "" {
		t.Error("a small problem was compressed")
	}
}

// A body that is not what the endpoint takes is refused with the field named.
func TestBadBodiesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for body, field := range map[string]string{
		`{}`: "email", `{"email":"a@b.c"}`: "password", `{"email":1,"password":"x"}`: "email",
		`{"email":"a","password":"b","x":1}`: "x", `{"EMAIL":"a","password":"b"}`: "EMAIL",
		`{"email":"a","email":"b","password":"c"}`: "body", `[]`: "body", `{"email":"a","password":"b"}{}`: "body", `x`: "body", ``: "body",
	} {
		answer := w.ask(http.MethodPost, "/v1/auth/login", body, "Content-Type", "application/json")
		refusal := answer.refused(http.StatusUnprocessableEntity)
		if refusal.Errors[0].Field != field {
			t.Errorf("%s: %+v, want an error of %s", body, refusal.Errors, field)
		}
	}
	login := `{"email":"a","password":"b"}`
	if got := w.ask(http.MethodPost, "/v1/auth/login", login, "Content-Type", "text/plain").refused(415); got.Title != "Unsupported media type" {
		t.Errorf("text/plain: %+v", got)
	}
	large := `{"email":"` + strings.Repeat("x", 70<<10) + `"}`
	if got := w.ask(http.MethodPost, "/v1/auth/login", large, "Content-Type", "application/json").refused(413); got.Title != "Payload too large" {
		t.Errorf("70 KiB: %+v", got)
	}
}

// Requests are counted by the pattern of their address, never by what a client
// put into it.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.store(w.alice.newEvent(nil))
	w.alice.get("/v1/agents/support-bot").want(http.StatusOK)
	w.alice.get("/v1/agents/nobody").want(http.StatusNotFound)
	w.alice.get("/surely/not/here").want(http.StatusNotFound)
	w.send("", http.MethodGet, "/v1/events", "").want(http.StatusUnauthorized)
	want := `
# HELP outlay_query_requests_total Requests answered by the query tier, by route and status code.
# TYPE outlay_query_requests_total counter
outlay_query_requests_total{code="200",route="/v1/agents/:name"} 1
outlay_query_requests_total{code="401",route="/v1/events"} 1
outlay_query_requests_total{code="404",route="/v1/agents/:name"} 1
outlay_query_requests_total{code="404",route="none"} 1
`
	if err := testutil.GatherAndCompare(w.registry, strings.NewReader(want), "outlay_query_requests_total"); err != nil {
		t.Error(err)
	}
	if got, err := testutil.GatherAndCount(w.registry, "outlay_query_request_duration_seconds"); err != nil || got != 3 {
		t.Errorf("%d routes have a duration (%v), want 3", got, err)
	}
	problems, err := testutil.GatherAndLint(w.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("metrics lint: %v %v", problems, err)
	}
}

// A database that is away is a 500 that says nothing of it, and readiness fails.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	pool := database(t)
	w := newWorld(t, pool)
	w.tier.Close()
	answer := w.alice.get("/v1/events")
	refusal := answer.refused(http.StatusInternalServerError)
	if refusal.Title != "Server error" || strings.Contains(string(answer.body), "pool") || answer.header.Get("Retry-After") == "" {
		t.Errorf("without a database: %s, Retry-After %q", answer.body, answer.header.Get("Retry-After"))
	}
	w.login("alice@example.com", password).refused(http.StatusInternalServerError)
	if err := w.server.Ready(t.Context()); err == nil {
		t.Error("ready without a database")
	}
}

// The document that is served is the one that the answers are held to, as JSON.
func TestOpenAPIDocumentIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var served struct {
		OpenAPI string
		Paths   map[string]any
	}
	w.send("", http.MethodGet, "/openapi.json", "").decode(http.StatusOK, &served)
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	if served.OpenAPI != "3.1.0" || len(served.Paths) != doc.Paths.Len() {
		t.Errorf("served %s with %d paths, want 3.1.0 with %d", served.OpenAPI, len(served.Paths), doc.Paths.Len())
	}
}

// A client that sends its whole body before it reads gets the response to one that
// is too large.
func TestRefusalOfALargeBodyCanBeRead(t *testing.T) {
	t.Parallel()
	w := newServer(t, database(t), func(*query.Config) {})
	for path, status := range map[string]int{"/v1/auth/login": http.StatusRequestEntityTooLarge, "/v1/users": http.StatusUnauthorized, "/v2": http.StatusNotFound} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		const size = 16 << 20
		request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", path, size, strings.Repeat("x", size))
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatalf("%s: the body could not be sent: %v", path, err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: the response could not be read: %v", path, err)
		}
		_ = response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("%s: status %d, want %d", path, response.StatusCode, status)
		}
	}
}
