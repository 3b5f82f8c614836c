package front

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// exchange sends text to a server with the paths, and returns all that it answers
// until it closes the connection, without the date.
func exchange(t *testing.T, h http.HandlerFunc, text string, paths ...string) string {
	t.Helper()
	l := listen(t)
	serveOn(t, l, h, paths...)
	c := dialTo(t, l)
	_, err := io.WriteString(c, text)
	fatal(t, err)
	fatal(t, c.(*net.TCPConn).CloseWrite())
	var all strings.Builder
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if !strings.HasPrefix(line, "Date: ") {
			all.WriteString(line)
		} else if _, err := http.ParseTime(strings.TrimSpace(strings.TrimPrefix(line, "Date: "))); err != nil {
			t.Error(err)
		}
		if err != nil {
			return all.String()
		}
	}
}

// wrapped is a ResponseWriter around another, as gin has one.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// What the client gets is the same to the byte, and so is what the handler was told.
func TestLaneAnswersAsNetHTTP(t *testing.T) {
	tell := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		h := w.Header()
		if r.Header.Get("No-Type") == "" {
			h.Set("Content-Type", "application/json")
		}
		h["X-Request-Id"] = []string{r.Header.Get("X-Request-Id")}
		h["X-RateLimit-Limit"] = []string{"1\r\nX-Evil: 2"}
		h["X-RateLimit-Reset"] = []string{"1"}
		SetHeader(w, "X-RateLimit-Reset", "1\r\nX-Evil: 2")
		if r.Header.Get("X-Request-Id") != "" {
			SetHeader(wrapped{w}, "X-RateLimit-Remaining", "1")
			SetHeader(wrapped{w}, "X-RateLimit-Remaining", "20")
		}
		if r.Header.Get("X-Status") != "" {
			w.WriteHeader(http.StatusTeapot)
			h.Set("Late", "too late")
		}
		header := r.Header.Clone()
		header.Del("Content-Length")
		body = body[:min(len(body), 1000)] // net/http sends a long answer in chunks
		fmt.Fprintf(w, "%s %s %s %s %d %s %q %v %v\n", r.Method, r.URL, r.RequestURI, r.Proto, r.ContentLength, r.Host, body, err, header)
	}
	request := func(header, body string) string {
		return fmt.Sprintf("POST /a HTTP/1.1\r\nHost: h:1\r\n%sContent-Length: %d\r\n\r\n%s", header, len(body), body)
	}
	for name, text := range map[string]string{
		"one":                   request("", "{}"),
		"nothing":               request("", ""),
		"alike":                 request("X-Request-Id: 1\r\n", "a") + request("X-Request-Id: 1\r\n", "b"),
		"other value":           request("X-Request-Id: 1\r\n", "a") + request("X-Request-Id: 23 4\r\n", "bc"),
		"other name":            request("X-Request-Id: 1\r\n", "a") + request("X-Status: 1\r\n", "bc") + request("", ""),
		"more and less":         request("A: 1\r\n", "a") + request("A: 1\r\nB: 2\r\n", "a") + request("B: 2\r\n", "a"),
		"space":                 request("A:1\r\nb-c: \t 2 \r\nD:\r\ne: \t\r\n", "a") + request("A:  1\r\nb-c: \t 2 \r\nD: x\r\ne: \t\r\n", "a"),
		"keep-alive":            request("Connection: Keep-Alive\r\n", "a") + request("", "b"),
		"other host":            request("", "a") + strings.Replace(request("", "b"), "h:1", "[::1]:80", 1),
		"leading zeros":         strings.Replace(request("", "abc"), "th: 3", "th: 003", 1),
		"no type":               request("", "<html>"),
		"other path":            request("", "a") + strings.Replace(request("", "b"), "/a", "/b", 1) + request("", "c"),
		"chunks between":        request("", "a") + "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n" + request("", "b"),
		"large":                 request("", strings.Repeat("x", laneBytes)) + request("", "b"),
		"larger":                request("", strings.Repeat("xy", laneBytes)) + request("A: 1\r\n", strings.Repeat("z", maxBody)) + request("", "b"),
		"too large":             request("", strings.Repeat("x", maxBody+1)) + request("", "b"),
		"as large as it may be": request("", strings.Repeat("x", laneBytes-len(request("", ""))-3)) + request("", "b"),
		"close":                 request("Connection: close\r\n", "a") + request("", "b"),
		"expect":                request("Expect: 100-continue\r\n", "a"),
		"two lengths":           request("Content-Length: 1\r\n", "a"),
		"length and chunks":     request("Transfer-Encoding: chunked\r\n", "1\r\nx\r\n0\r\n\r\n"),
		"two hosts":             request("Host: b\r\n", "a"),
		"no host":               strings.Replace(request("", "a"), "Host: h:1\r\n", "", 1),
		"folded":                request("A: 1\r\n 2\r\n", "a"),
		"bare newline":          strings.Replace(request("A: 1\r\n", "a"), "A: 1\r\n", "A: 1\n", 1),
		"control":               request("A: 1\x01\r\n", "a"),
		"name with space":       request("A : 1\r\n", "a"),
		"pragma":                request("Pragma: no-cache\r\n", "a"),
		"HTTP/1.0":              strings.Replace(request("", "a"), "1.1", "1.0", 1),
		"GET":                   strings.Replace(request("", "a"), "POST", "GET", 1),
		"query":                 strings.Replace(request("", "a"), "/a", "/a?b=c", 1),
		"garbage":               "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := exchange(t, tell, text)
			if got := exchange(t, tell, text, "/a"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Bodies and answers are sent whole and in order, whatever the handler reads and however
// it writes.
func TestLaneSendsAsNetHTTP(t *testing.T) {
	request := func(kind string, size int) string {
		return fmt.Sprintf("POST /a HTTP/1.1\r\nHost: h\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, size, strings.Repeat("b", size))
	}
	for _, answer := range []int{0, 1, whole - 1, whole, 50_000} {
		text := strings.Repeat("a", answer)
		handlers := map[string]http.HandlerFunc{
			"at once":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) },
			"too long":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text+"a") },
			"too short": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text[:answer/2]) },
			"in parts": func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, text[:answer/2])
				_, _ = io.WriteString(w, text[answer/2:])
			},
			"twice": func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, text)
				_, err := io.WriteString(w, "more")
				if !errors.Is(err, http.ErrContentLength) {
					t.Error(err)
				}
			},
		}
		for name, write := range handlers {
			for _, reads := range []int64{0, 5, 6000, 1 << 20} {
				h := func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.CopyN(io.Discard, r.Body, reads)
					w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
					w.Header().Set("Content-Length", strconv.Itoa(answer))
					write(w, r)
				}
				text := request("a", laneBytes)
				if name == "at once" || name == "in parts" { // After the others the connection ends.
					text = request("a", 3) + text + request("b", 100_000) + request("b", 3)
				}
				want := exchange(t, h, text)
				if got := exchange(t, h, text, "/a"); got != want {
					t.Errorf("%d bytes %s, of the body %d read: got %d bytes, want %d:\n%.300s\n%.300s", answer, name, reads, len(got), len(want), got, want)
				}
			}
		}
	}
}

// After an answer of another length than it says, nothing can be told from what follows.
func TestNothingFollowsAnAnswerOfAnotherLength(t *testing.T) {
	const request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
	for _, length := range []int{0, 1, whole, 20_000} {
		for said, more := range map[int]string{length + 5: "", length: "more"} {
			h := func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(said))
				_, _ = io.WriteString(w, strings.Repeat("a", length))
				_, _ = io.WriteString(w, more)
			}
			if got := exchange(t, h, request+request, "/"); strings.Count(got, "HTTP/1.1 ") != 1 {
				t.Errorf("%d bytes of %d and %q: %d answers, want 1", length, said, more, strings.Count(got, "HTTP/1.1 "))
			}
		}
	}
}

// What a handler does that it need not do has the same answer as from net/http.
func TestOddHandlersAreAnsweredAsByNetHTTP(t *testing.T) {
	const request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
	for name, h := range map[string]http.HandlerFunc{
		"writes nothing after all was sent": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(whole))
			_, _ = io.WriteString(w, strings.Repeat("a", whole))
			if _, err := w.Write(nil); err != nil {
				t.Error(err)
			}
		},
		"writes a body where none may be": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			w.WriteHeader(http.StatusNoContent)
			if _, err := io.WriteString(w, "abc"); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Error(err)
			}
		},
		"reads after all was sent": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(whole))
			_, _ = io.WriteString(w, strings.Repeat("a", whole))
			if _, err := io.ReadAll(r.Body); r.Header.Get("Content-Length") == "" && !errors.Is(err, http.ErrBodyReadAfterClose) {
				t.Error(err)
			}
		},
	} {
		typed := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			h(w, r)
		}
		want := exchange(t, typed, request+request)
		if got := exchange(t, typed, request+request, "/"); got != want {
			t.Errorf("%s: got\n%.300s\nwant\n%.300s", name, got, want)
		}
	}
}

// What is longer than net/http would throw away itself is left to it. It leaves the length in the header.
func TestLongBodiesAreLeftToNetHTTP(t *testing.T) {
	for length, left := range map[int]bool{maxBody: false, maxBody + 1: true} {
		h := func(_ http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Content-Length") != ""; got != left {
				t.Errorf("%d bytes: left to net/http %t, want %t", length, got, left)
			}
		}
		exchange(t, h, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat("x", length)), "/")
	}
}

// The time for an answer begins when it is written, not while the rest of the request is waited for.
func TestAnswerHasItsTimeAfterASlowBody(t *testing.T) {
	l := listen(t)
	const timeout = 400 * time.Millisecond
	serve(t, l, &http.Server{WriteTimeout: timeout, ReadTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})}, "/")
	c := dialTo(t, l)
	r := bufio.NewReader(c)
	for _, slow := range []bool{false, true} {
		_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n")
		fatal(t, err)
		if slow {
			time.Sleep(timeout + timeout/2)
		}
		_, err = io.WriteString(c, strings.Repeat("x", 5000))
		fatal(t, err)
		answer, err := http.ReadResponse(r, nil)
		fatal(t, err)
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("status %d", answer.StatusCode)
		}
	}
}

func TestHandlerIsToldOfABodyThatIsCutOff(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", body, err)
	}
	for _, length := range []int{3, 5000} {
		got := exchange(t, h, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n{}", length), "/")
		if !strings.HasSuffix(got, "Connection: close\r\n\r\n{} unexpected EOF") {
			t.Errorf("%d: got %q", length, got)
		}
	}
}

// Who is answered before all of the body has come is answered when it has come, or
// when the connection ends.
func TestBodyThatIsCutOffAndNotRead(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	for _, length := range []int{3, 5000} {
		got := exchange(t, h, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n{}", length), "/")
		want := "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
		if got != want {
			t.Errorf("%d: got %q", length, got)
		}
	}
}

func TestLaneEndsWhenTheHandlerPanics(t *testing.T) {
	h := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	if got := exchange(t, h, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", "/"); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestLaneEndsWhenTheHandlerSaysSo(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }
	text := strings.Repeat("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", 2)
	want := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	if got := exchange(t, h, text, "/"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Shutdown closes idle connections at once, answers what has begun, and tells its
// sender that the connection ends.
func TestShutdownAnswersWhatHasBegun(t *testing.T) {
	l := listen(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	s := New(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Wait") != "" {
			close(began)
			<-goOn
		}
		echo(w, r)
	})}, "/")
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	idle, busy := dialTo(t, l), dialTo(t, l)
	_, err := io.WriteString(idle, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	fatal(t, err)
	answers := bufio.NewReader(idle)
	answer, err := http.ReadResponse(answers, nil)
	fatal(t, err)
	_, err = io.Copy(io.Discard, answer.Body)
	fatal(t, err)
	_, err = io.WriteString(busy, "POST / HTTP/1.1\r\nHost: a\r\nWait: 1\r\nContent-Length: 1\r\n\r\nx")
	fatal(t, err)
	<-began
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(t.Context()) }()
	if _, err := answers.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection: %v", err)
	}
	close(goOn)
	awaitLast(t, busy, "x")
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	fatal(t, <-down)
}

// awaitLast reads an answer with the body after which the connection ends.
func awaitLast(t *testing.T, c net.Conn, body string) {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	fatal(t, err)
	got, err := io.ReadAll(answer.Body)
	fatal(t, err)
	if string(got) != body || !answer.Close {
		t.Errorf("got %q, close %t; want %q", got, answer.Close, body)
	}
}

// A request of which a part has come before the Server closes is waited for.
func TestShutdownWaitsForTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		length  int
	}{
		"without timeout": {0, 4}, "with timeout": {20 * time.Second, 4},
		"long, without timeout": {0, 2 * laneBytes}, "long, with timeout": {20 * time.Second, 2 * laneBytes},
	} {
		t.Run(name, func(t *testing.T) {
			body, timeout := strings.Repeat("x", c.length), c.timeout
			tcp := listen(t)
			defer tcp.Close()
			c := dialTo(t, tcp)
			accepted, err := tcp.Accept()
			fatal(t, err)
			s := New(&http.Server{Handler: http.HandlerFunc(echo), ReadTimeout: timeout}, "/")
			l := newLane(&others{Listener: tcp, server: s}, accepted.(*net.TCPConn))
			if !s.enter(l) {
				t.Fatal("closed")
			}
			_, err = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:2])
			fatal(t, err)
			if !l.await(0) {
				t.Fatal("nothing came")
			}
			s.close()
			go l.run()
			_, err = io.WriteString(c, body[2:])
			fatal(t, err)
			awaitLast(t, c, body)
			fatal(t, s.Shutdown(t.Context()))
		})
	}
}

// So is one whose rest is being waited for when the Server closes, whether the handler reads it or not.
func TestShutdownWaitsForTheRestThatIsWaitedFor(t *testing.T) {
	for _, timeout := range []time.Duration{0, 20 * time.Second} {
		for _, size := range []int{100, 2 * laneBytes} {
			for _, reads := range []bool{true, false} {
				l := listen(t)
				began := make(chan struct{}, 1)
				s := New(&http.Server{ReadTimeout: timeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					began <- struct{}{}
					if reads {
						echo(w, r)
					}
				})}, "/")
				served := make(chan error, 1)
				go func() { served <- s.Serve(l) }()
				c := dialTo(t, l)
				body := strings.Repeat("x", size)
				_, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, body[:2])
				fatal(t, err)
				if size > laneBytes {
					<-began
				}
				time.Sleep(20 * time.Millisecond) // It waits by now, or the test proves less.
				down := make(chan error, 1)
				go func() { down <- s.Shutdown(t.Context()) }()
				for !s.closing.Load() {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(20 * time.Millisecond)
				_, err = io.WriteString(c, body[2:])
				fatal(t, err)
				if !reads {
					body = ""
				}
				awaitLast(t, c, body)
				fatal(t, <-down)
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			}
		}
	}
}

func TestShutdownGivesUpWithItsContext(t *testing.T) {
	l := listen(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	s := New(&http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(began)
		<-goOn
	})}, "/")
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c := dialTo(t, l)
	_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	fatal(t, err)
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); err == nil {
		t.Error("Shutdown returned no error")
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	close(goOn)
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// What net/http has taken over is not disturbed by a Server that closes: it sees to it itself.
func TestCloseLeavesAloneWhatWasHandedOver(t *testing.T) {
	tcp := listen(t)
	defer tcp.Close()
	c := dialTo(t, tcp)
	accepted, err := tcp.Accept()
	fatal(t, err)
	s := New(&http.Server{}, "/")
	o := &others{Listener: tcp, server: s, arriving: make(chan arrival), done: make(chan struct{})}
	l := newLane(o, accepted.(*net.TCPConn))
	if !s.enter(l) {
		t.Fatal("closed")
	}
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
	fatal(t, err)
	l.server.mu.Lock() // The lane cannot leave yet.
	go l.run()
	locked := true
	unlock := func() {
		if locked {
			locked = false
			l.server.mu.Unlock()
		}
	}
	defer unlock()
	select {
	case <-o.arriving:
		t.Error("handed over while the server still had it")
	case <-time.After(50 * time.Millisecond):
	}
	unlock()
	taken := <-o.arriving
	defer taken.conn.Close()
	s.close()
	_, err = io.WriteString(c, "x")
	fatal(t, err)
	got := make([]byte, 100)
	for text := ""; !strings.HasSuffix(text, "x"); {
		n, err := taken.conn.Read(got)
		fatal(t, err)
		text += string(got[:n])
	}
}
