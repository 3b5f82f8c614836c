package ingest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/outlayhq/outlay/ingest/decode"
)

// hostile is a request that tries something, and the status that it must get.
type hostile struct {
	name    string
	path    string // POST /v1/track unless given
	method  string
	body    string
	headers []string // pairs; an empty value takes the header away
	status  int
}

// field puts the JSON text of one field into an event.
func field(name, value string) string { return `{"agent":"a","` + name + `":` + value + `}` }

// padded is an event of exactly size bytes.
func padded(size int) string {
	const head, tail = `{"agent":"a","x":"`, `"}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

func nested(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

func list(element string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// members is an object with n members.
func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"f%d":0`, i)
	}
	return "{" + b.String()[1:] + "}"
}

// unknownFields are n fields of an event that nobody knows.
func unknownFields(n int) string {
	var b strings.Builder
	b.WriteString(`{"agent":"a"`)
	for i := range n {
		fmt.Fprintf(&b, `,"f%d":0`, i)
	}
	return b.String() + "}"
}

func utf16Text(text string, order binary.AppendByteOrder) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// Everything that somebody may try gets the status that is documented for it, on
// each endpoint, and an answer that is JSON. Nothing gets a 5xx.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	tried := 0
	try := func(t *testing.T, c hostile) answer {
		t.Helper()
		tried++
		method, path := cmp.Or(c.method, "POST"), cmp.Or(c.path, "/v1/track")
		r := f.do(t, method, path, []byte(c.body), f.headers(c)...)
		if r.status != c.status {
			t.Errorf("%s %s, %s: status %d, want %d: %.300s", method, path, c.name, r.status, c.status, fmt.Sprint(r.body))
		}
		return r
	}
	for _, c := range singles() {
		for _, c.path = range []string{"/v1/track", "/v1/events"} {
			r := try(t, c)
			if (r.body["tracked"] == true) != (c.status == 200) || c.status != 200 && r.body["code"] == nil {
				t.Errorf("%s: status %d with %v", c.name, r.status, r.body)
			}
		}
	}
	tried += tryInBatches(t, f, singles())
	for _, c := range append(requests(t), batches()...) {
		try(t, c)
	}
	for _, c := range spans(t) {
		tried++
		status, _, text := f.send(t, cmp.Or(c.method, "POST"), c.path, []byte(c.body), f.headers(c)...)
		if status == 200 && bytes.Contains(text, []byte("rejectedSpans")) {
			status = 207
		}
		if status != c.status {
			t.Errorf("%s, %s: status %d, want %d: %.300s", c.path, c.name, status, c.status, text)
		}
	}
	t.Logf("%d bodies of one event on two paths and in batches, %d other requests, %d batches, %d exports of spans: %d in all",
		len(singles()), len(requests(t)), len(batches()), len(spans(t)), tried)
}

func (f *fixture) headers(c hostile) []string {
	return append([]string{"Authorization", "Bearer " + f.secret, "Content-Type", "application/json"}, c.headers...)
}

// tryInBatches sends bodies of one event as the lines of batches, between good ones:
// each gets the status that it gets alone, and costs the others nothing. It returns
// how many it sent.
func tryInBatches(t *testing.T, f *fixture, cases []hostile) (tried int) {
	t.Helper()
	const event = `{"agent":"a"}`
	var lines bytes.Buffer
	var want []hostile
	flush := func() {
		r := f.post(t, "/v1/track/batch", lines.String(), "Content-Type", "application/x-ndjson")
		results, _ := r.body["results"].([]any)
		if len(results) != len(want) {
			t.Fatalf("a batch of %d: %d %.300s", len(want), r.status, fmt.Sprint(r.body))
		}
		for i, c := range want {
			if status := fmt.Sprint(results[i].(map[string]any)["status"]); status != fmt.Sprint(c.status) {
				t.Errorf("in a batch, %s: %.300s, want %d", c.name, fmt.Sprint(results[i]), c.status)
			}
		}
		lines.Reset()
		want = want[:0]
	}
	for _, c := range cases {
		if strings.TrimSpace(c.body) == "" {
			continue // A blank line is no event.
		}
		if lines.Len()+len(c.body) > 3<<20 {
			flush()
		}
		fmt.Fprintf(&lines, "%s\n%s\n", c.body, event)
		want = append(want, c, hostile{name: "a good one after " + c.name, status: 200})
		tried++
	}
	flush()
	return tried
}

// A body is judged, not trusted: taking it costs a multiple of its size at most.
func TestHostileInputTakesLittleMemory(t *testing.T) {
	body := []byte(field("metadata", `{"a":`+list("1e131071", 7000)+`}`))
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r decode.Request
			if err := decode.RequestFromJSON(&r, body); err == nil {
				b.Fatal("accepted")
			}
		}
	}).AllocedBytesPerOp()
	if limit := int64(4 * len(body)); allocated > limit {
		t.Errorf("refusing %d bytes allocates %d, want at most %d", len(body), allocated, limit)
	}
}
