package front

import (
	"net/http"
	"testing"
)

// What every answer has is worth no memory: neither for itself, nor more with each answer.
func TestSetHeaderUsesItsMemoryAgain(t *testing.T) {
	a := answers.New().(*answer)
	w := http.ResponseWriter(wrapped{a})
	allocations := testing.AllocsPerRun(100, func() {
		SetHeader(w, "X-Request-Id", "1")
		SetHeader(w, "X-RateLimit-Limit", "2")
		a.WriteHeader(http.StatusOK)
		if want := "HTTP/1.1 200 OK\r\nX-RateLimit-Limit: 2\r\nX-Request-Id: 1\r\n"; string(a.out) != want {
			t.Fatalf("%q, want %q", a.out, want)
		}
		a.reset()
		if len(a.fields) > 0 || len(a.text) > 0 {
			t.Fatalf("an empty answer has fields %v and text %q", a.fields, a.text)
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations an answer, want none", allocations)
	}
}
