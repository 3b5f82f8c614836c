package front

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

// serveOn serves h on a listener for the length of the test, with a front for POST
// requests to the paths.
func serveOn(t *testing.T, l net.Listener, h http.HandlerFunc, paths ...string) {
	t.Helper()
	serve(t, l, &http.Server{Handler: h}, paths...)
}

func serve(t *testing.T, l net.Listener, h *http.Server, paths ...string) {
	t.Helper()
	s := New(h, paths...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = h.Close()
		<-done
		s.running.Wait()
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

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // net/http does not read on once something is written
	_, _ = w.Write(body)
}

// ways are how a POST request to / is answered.
var ways = map[string][]string{"net/http alone": nil, "net/http": {"/other"}, "lane": {"/"}}

func TestWhoIsAnsweredIsNotWatched(t *testing.T) {
	for name, paths := range ways {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			began, gone, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			serveOn(t, l, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				close(began)
				<-gone
				if paths == nil {
					<-r.Context().Done()
				}
				ended <- r.Context().Err()
			}, paths...)
			c := dialTo(t, l)
			_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
			fatal(t, err)
			<-began
			fatal(t, c.Close())
			close(gone)
			err = <-ended
			if (err != nil) != (paths == nil) {
				t.Errorf("the context of the request: %v", err)
			}
		})
	}
}

// One byte at a time, several requests at once, and bodies with and without a
// length: what is read must not depend on who reads it.
func TestNoByteIsLost(t *testing.T) {
	var sent strings.Builder
	var want []string
	for i := range 50 {
		body := strings.Repeat("x", i)
		if i%16 == 15 {
			body = strings.Repeat("long", laneBytes/2+i)
		}
		want = append(want, body)
		if i%9 == 0 && i > 20 {
			fmt.Fprintf(&sent, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			continue
		}
		fmt.Fprintf(&sent, "POST / HTTP/1.1\r\nHost: a\r\nX-Third: %d\r\nContent-Length: %d\r\n\r\n%s", i/3, len(body), body)
	}
	for name, paths := range ways {
		l := listen(t)
		serveOn(t, l, echo, paths...)
		for _, step := range []int{1, 7, 61, sent.Len()} {
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
					t.Fatalf("%s, step %d: got %.50q (%d bytes), want %.50q (%d)", name, step, got, len(got), body, len(body))
				}
			}
		}
	}
}

// Who reads single bytes of a connection gets each of them at the second try.
func TestConnectionIsReadByteByByte(t *testing.T) {
	l := New(&http.Server{}, "/").Listen(listen(t))
	defer l.Close()
	const text = "abcdef"
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

func TestSlowSendersAreCutOff(t *testing.T) {
	const whole = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
	for name, paths := range ways {
		for _, beginning := range []string{"", "P", "POST / HTTP/1.1\r\nHo", whole[:len(whole)-1], "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n{"} {
			t.Run(fmt.Sprintf("%s/%d bytes", name, len(beginning)), func(t *testing.T) {
				t.Parallel()
				l := listen(t)
				serve(t, l, &http.Server{Handler: http.HandlerFunc(echo), ReadTimeout: time.Second}, paths...)
				c := dialTo(t, l)
				r := bufio.NewReader(c)
				// The deadline may be set away by the first request and has to come back.
				_, err := io.WriteString(c, whole)
				fatal(t, err)
				answer, err := http.ReadResponse(r, nil)
				fatal(t, err)
				_, err = io.Copy(io.Discard, answer.Body)
				fatal(t, err)
				_, err = io.WriteString(c, beginning)
				fatal(t, err)
				if _, err := io.ReadAll(r); err != nil {
					t.Errorf("got %v, want to be cut off", err)
				}
			})
		}
	}
}

// Who connects ahead and sends later is answered, and who never sends is given up with
// the idle connections.
func TestConnectionMayBeMadeAhead(t *testing.T) {
	const head = 300 * time.Millisecond // A busy machine reads a head in this.
	for name, paths := range ways {
		if len(paths) == 0 {
			continue // net/http gives it the time of a head.
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			serve(t, l, &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: head, IdleTimeout: time.Minute}, paths...)
			c := dialTo(t, l)
			time.Sleep(2 * head)
			_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
			fatal(t, err)
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			fatal(t, err)
			if answer.StatusCode != http.StatusOK {
				t.Errorf("status %d", answer.StatusCode)
			}

			l = listen(t)
			serve(t, l, &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: time.Minute, IdleTimeout: head}, paths...)
			if text, err := io.ReadAll(dialTo(t, l)); err != nil || len(text) > 0 {
				t.Errorf("got %q and %v, want the end", text, err)
			}
		})
	}
}
