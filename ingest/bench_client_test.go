package ingest

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// hammer sends n requests over a number of connections, one at a time on each,
// and fails the benchmark on any answer but 200. It writes requests that were
// made before and reads just enough of the answers, to leave the processors to
// the server.
func hammer(b *testing.B, address string, requests [][]byte, connections, n int) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, connections)
	for range connections {
		wg.Go(func() {
			if err := hammerOne(address, requests, &next, int64(n)); err != nil {
				failed <- err
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		b.Fatal(err)
	default:
	}
}

// hammerAt sends n requests at a rate a second over connections that are open, each
// when it is due, and returns how long after that each was answered.
func hammerAt(b *testing.B, address string, requests [][]byte, connections, n int, rate float64) []time.Duration {
	b.Helper()
	var next atomic.Int64
	var group errgroup.Group
	times := make([]time.Duration, n)
	conns := make([]net.Conn, connections)
	for i := range conns {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
	}
	start := time.Now()
	for _, conn := range conns {
		group.Go(func() error {
			r := bufio.NewReaderSize(conn, 4<<10)
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				due := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
				time.Sleep(time.Until(due))
				if _, err := conn.Write(requests[i%int64(len(requests))]); err != nil {
					return err
				}
				if err := readAnswer(r); err != nil {
					return err
				}
				times[i] = time.Since(due)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return times
}

func hammerOne(address string, requests [][]byte, next *atomic.Int64, n int64) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 64<<10)
	for {
		i := next.Add(1)
		if i > n {
			return nil
		}
		if _, err := conn.Write(requests[i%int64(len(requests))]); err != nil {
			return err
		}
		if err := readAnswer(r); err != nil {
			return err
		}
	}
}

// readAnswer reads one answer and returns an error unless its status is 200.
func readAnswer(r *bufio.Reader) error {
	status, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("answered %q", status)
	}
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	_, err = r.Discard(length)
	return err
}

// trackBodies are events of about 323 bytes that all differ.
func trackBodies() []string {
	r := rand.New(rand.NewPCG(3, 4))
	models := []string{"gpt-4o", "gpt-4o-mini", "o3", "claude-3-5-sonnet-20241022", "gemini-1.5-pro", "command-r-plus"}
	bodies := make([]string, 4096)
	for i := range bodies {
		bodies[i] = fmt.Sprintf(`{"agent":"support-agent-%03d","model":%q,"input_tokens":%d,"output_tokens":%d,"latency_ms":%d,`+
			`"session_id":"%08x-4f3a-4d1b-9c55-%012x","metadata":{"environment":"production","region":"eu-west-1","team":"support","attempt":%d,"trace_id":"%016x%016x"}}`,
			r.IntN(200), models[r.IntN(len(models))], r.IntN(8000), r.IntN(1500), r.IntN(9000),
			r.Uint32(), r.Uint64()>>16, r.IntN(3), r.Uint64(), r.Uint64())
	}
	return bodies
}

func batchBodies(n int) []string {
	singles := trackBodies()
	bodies := make([]string, len(singles)/n)
	for i := range bodies {
		bodies[i] = "[" + strings.Join(singles[i*n:(i+1)*n], ",") + "]"
	}
	return bodies
}
