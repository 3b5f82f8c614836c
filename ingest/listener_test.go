package ingest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serveOn serves h on a listener for the length of the test. Who has not sent a header by the timeout is cut off.
func serveOn(t *testing.T, l net.Listener, timeout time.Duration, h http.HandlerFunc) {
	t.Helper()
	s := &http.Server{Handler: h, ReadHeaderTimeout: timeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	return l
}

func dialTo(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	fatal(t, err)
	t.Cleanup(func() { _ = c.Close() })
	fatal(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

func TestListenerDoesNotWatchWhoIsAnswered(t *testing.T) {
	for name, wrap := range map[string]func(net.Listener) net.Listener{
		"bare":    func(l net.Listener) net.Listener { return l },
		"wrapped": Listener,
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			began, gone, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			serveOn(t, wrap(l), time.Minute, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				close(began)
				<-gone
				if name == "bare" {
					<-r.Context().Done()
				}
				ended <- r.Context().Err()
			})
			c := dialTo(t, l)
			_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
			fatal(t, err)
			<-began
			fatal(t, c.Close())
			close(gone)
			err = <-ended
			if (err != nil) != (name == "bare") {
				t.Errorf("the context of the request: %v", err)
			}
		})
	}
}

// One byte at a time, several requests at once, and bodies with and without a
// length: what is read must not depend on who may have been watching.
func TestListenerLosesNoByte(t *testing.T) {
	l := listen(t)
	serveOn(t, Listener(l), time.Minute, echo)
	var sent strings.Builder
	var want []string
	for i := range 50 {
		body := strings.Repeat("x", i)
		want = append(want, body)
		if i%3 == 0 && i > 0 {
			fmt.Fprintf(&sent, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", i, body)
			continue
		}
		fmt.Fprintf(&sent, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", i, body)
	}
	for _, step := range []int{1, 7, sent.Len()} {
		c := dialTo(t, l)
		go func() {
			for text := sent.String(); text != ""; text = text[min(step, len(text)):] {
				if _, err := io.WriteString(c, text[:min(step, len(text))]); err != nil {
					return
				}
			}
		}()
		r := bufio.NewReader(c)
		for _, body := range want {
			answer, err := http.ReadResponse(r, nil)
			fatal(t, err)
			got, err := io.ReadAll(answer.Body)
			fatal(t, err)
			if string(got) != body {
				t.Fatalf("step %d: got %q, want %q", step, got, body)
			}
		}
	}
}

// Who reads single bytes gets each of them at the second try.
func TestListenerIsReadByteByByte(t *testing.T) {
	l := Listener(listen(t))
	defer l.Close()
	const text = "abc"
	_, err := io.WriteString(dialTo(t, l), text)
	fatal(t, err)
	c, err := l.Accept()
	fatal(t, err)
	defer c.Close()
	fatal(t, c.SetDeadline(time.Now().Add(time.Minute)))
	for i := range text {
		var one [1]byte
		for try, want := range []int{0, 1} {
			if n, err := c.Read(one[:]); n != want || err != nil {
				t.Fatalf("byte %d, read %d: got %d bytes and %v, want %d", i, try, n, err, want)
			}
		}
		if one[0] != text[i] {
			t.Errorf("byte %d is %q", i, one[0])
		}
	}
}

func TestListenerCutsOffSlowSenders(t *testing.T) {
	l := listen(t)
	serveOn(t, Listener(l), time.Second, echo)
	c := dialTo(t, l)
	r := bufio.NewReader(c)
	// The deadline is set away by the first request and has to come back.
	_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
	fatal(t, err)
	answer, err := http.ReadResponse(r, nil)
	fatal(t, err)
	_, err = io.Copy(io.Discard, answer.Body)
	fatal(t, err)
	_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHo")
	fatal(t, err)
	if _, err := io.ReadAll(r); err != nil {
		t.Errorf("got %v, want to be cut off", err)
	}
}
