package front

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever is taken for plain, alone or after another request, net/http takes for the
// same request.
func FuzzHead(f *testing.F) {
	const line, hosted = "POST /v1/track HTTP/1.1\r\n", "Host: localhost:8080\r\n"
	for _, headers := range []string{
		"Content-Length: 12\r\n",
		"Content-Type: application/json\r\nContent-Length: 0\r\nX-Request-Id:  a b\t\r\n",
		"content-length:7\r\nuser_agent: x\r\nConnection: keep-alive\r\n",
		"Connection: keep-alive, close\r\nContent-Length: 1\r\n",
		"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
		"Content-Length: 1, 1\r\nExpect: 100-continue\r\n",
		"A:\r\nContent-Length: +1\r\n",
		" A: 1\r\nContent-Length: 1\r\n",
		"A: 1\n\r\nContent-Length: 1\r\n",
	} {
		f.Add([]byte(line+hosted+"Content-Length: 3\r\n\r\n"), []byte(line+hosted+headers+"\r\n{}"))
	}
	f.Add([]byte(line+hosted+"A: 1\r\nContent-Length: 3\r\n\r\n"), []byte(line+hosted+"A: 2\r\nContent-Length: 3\r\n\r\n"))
	paths := New(&http.Server{}, "/v1/track", "/v1/events").paths
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var h head
		for _, text := range [][]byte{first, second} {
			// What is not plain ends the lane, so that nothing follows it.
			if !h.agrees(t, text, paths) {
				return
			}
		}
	})
}

// agrees reports whether text is plain, and fails the test unless net/http agrees.
func (h *head) agrees(t *testing.T, text []byte, paths map[string]string) bool {
	begin, size, ok := h.parse(text, paths)
	if !ok {
		return false
	}
	source := bytes.NewReader(text)
	reader := bufio.NewReaderSize(source, len(text)+16)
	want, err := http.ReadRequest(reader)
	if err != nil {
		t.Fatalf("net/http refuses it: %v", err)
	}
	want.Header.Del("Content-Length")
	if diff := cmp.Diff(want.Header, h.header); diff != "" {
		t.Errorf("header (-net/http +lane):\n%s", diff)
	}
	if want.Method != http.MethodPost || want.RequestURI != h.path || want.URL.String() != h.path || want.Host != h.host ||
		want.ContentLength != int64(size) || want.TransferEncoding != nil || want.Close || want.Trailer != nil ||
		want.Proto != "HTTP/1.1" {
		t.Errorf("net/http has %+v, the lane %+v and a length of %d", want, h, size)
	}
	if rest := reader.Buffered() + source.Len(); begin != len(text)-rest {
		t.Errorf("the body begins at %d, want %d", begin, len(text)-rest)
	}
	return true
}
