package cors_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema/cors"
)

func request(method, origin, asks string) *http.Request {
	r := httptest.NewRequest(method, "/v1/track", http.NoBody)
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	if asks != "" {
		r.Header.Set("Access-Control-Request-Method", asks)
	}
	return r
}

// Pages of the origins are let in, preflight requests included; nobody else is, and
// without origins nothing is different.
func TestHandlerAllowsOnlyTheOrigins(t *testing.T) {
	t.Parallel()
	const own, foreign = "https://app.example.com", "https://app.example.com.evil.test"
	tests := []struct {
		name    string
		origins []string
		request *http.Request
		status  int
		allowed string
	}{
		{"own", []string{own}, request("POST", own, ""), 418, own},
		{"second", []string{"http://localhost:3000", own}, request("GET", own, ""), 418, own},
		{"preflight", []string{own}, request("OPTIONS", own, "POST"), 204, own},
		{"foreign", []string{own}, request("POST", foreign, ""), 418, ""},
		{"foreign preflight", []string{own}, request("OPTIONS", foreign, "POST"), 418, ""},
		{"null", []string{own}, request("POST", "null", ""), 418, ""},
		{"not a preflight", []string{own}, request("OPTIONS", own, ""), 418, own},
		{"no page", []string{own}, request("POST", "", ""), 418, ""},
		{"all", []string{"*"}, request("POST", foreign, ""), 418, foreign},
		{"off", nil, request("POST", own, ""), 418, ""},
		{"off preflight", nil, request("OPTIONS", own, "POST"), 418, ""},
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, test := range tests {
		w := httptest.NewRecorder()
		cors.Config{Origins: test.origins}.Handler(next).ServeHTTP(w, test.request)
		if w.Code != test.status || w.Header().Get("Access-Control-Allow-Origin") != test.allowed {
			t.Errorf("%s: status %d, allowed %q, want %d, %q", test.name, w.Code, w.Header().Get("Access-Control-Allow-Origin"), test.status, test.allowed)
		}
		if preflight := w.Code == http.StatusNoContent; preflight != (w.Header().Get("Access-Control-Allow-Headers") != "") {
			t.Errorf("%s: header %v", test.name, w.Header())
		}
		if varies := w.Header().Get("Vary") == "Origin"; varies != (test.origins != nil) {
			t.Errorf("%s: header %v", test.name, w.Header())
		}
	}
}

// An origin that no browser would ever send is refused.
func TestValidateRefusesWhatIsNoOrigin(t *testing.T) {
	t.Parallel()
	got := map[string]bool{}
	for _, origin := range []string{"https://a.example", "http://localhost:3000", "*", "a.example", "https://a.example/", "https://u@a.example", "ftp://a.example", ""} {
		got[origin] = cors.Config{Origins: []string{origin}}.Validate() == nil
	}
	want := map[string]bool{"https://a.example": true, "http://localhost:3000": true, "*": true, "a.example": false, "https://a.example/": false, "https://u@a.example": false, "ftp://a.example": false, "": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
