package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/deploy/child"
	"github.com/outlayhq/outlay/ingest/decode"
	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/httpserver"
	"github.com/outlayhq/outlay/schema/wire"
)

// The benchmarks run what they measure as processes of their own, so that the
// CPU time of each is known: this test binary started again in a role.
const (
	roleVar   = "OUTLAY_BENCH_ROLE"
	brokerVar = "OUTLAY_BENCH_BROKER"
	secretVar = "OUTLAY_BENCH_SECRET"
	dirVar    = "OUTLAY_BENCH_DIR"
)

func TestMain(m *testing.M) {
	roles := map[string]func() error{"bare": serveBare, "priced": servePriced, "ingest": serveIngest, "broker": serveBroker}
	if role, ok := roles[os.Getenv(roleVar)]; ok {
		if err := role(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveBare is the yardstick: net/http reading the body and answering as many
// bytes as a tracking result has.
func serveBare() error {
	answer := []byte(`{"tracked":true,"cost_usd":0.0123,"session_id":"` + strings.Repeat("x", 200) + `"}`)
	return serveHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
}

func serveIngest() error {
	client, err := kgo.NewClient(append(record.ProducerOptions(wire.EventsTopic), kgo.SeedBrokers(os.Getenv(brokerVar)))...)
	if err != nil {
		return err
	}
	return serveHTTP(benchServer(DefaultConfig(), client).Handler())
}

// servePriced does all that a batch needs but write it to Kafka.
func servePriced() error {
	s := benchServer(DefaultConfig(), nil)
	return serveHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m record.Memory
		m.Init(s.recorder.Capacity)
		defer m.Release()
		body, err := readBody(w, r, s.cfg.MaxBatchBytes, &m)
		if err != nil {
			return
		}
		defer releaseBody(body)
		b := s.newBatch(fuzzCredential)
		defer b.release()
		if decode.Array(body.Bytes(), b.read) != nil {
			return
		}
		for i := range b.records {
			b.records[i].Event = &b.events[i]
		}
		s.replyBatch(r.Context(), w, b, "")
	}))
}

func benchServer(cfg Config, client *kgo.Client) *Server {
	hash, _ := account.ParseSecret(os.Getenv(secretVar))
	return New(cfg, Deps{
		Keys:   testKeys{hash: {AccountID: schema.NewID(time.Now()), Plan: account.Enterprise, Grant: trackAll}},
		Caps:   noCaps{},
		Limits: noLimits{}, Replays: noReplays{},
		Prices: defaultPrices, Kafka: client, Topic: wire.EventsTopic,
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
}

// serveHTTP prints its address and answers requests with h.
func serveHTTP(h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return httpserver.New(h, httpserver.Config{}).Serve(l)
}

// serveBroker is a broker with its data on disk and a topic of four partitions.
func serveBroker() error {
	options := []kfake.Opt{
		kfake.NumBrokers(1), kfake.DataDir(os.Getenv(dirVar)), kfake.SeedTopics(4, wire.EventsTopic),
		// As Kafka has it. The embedded broker would begin a new file every 100 MiB, and bring
		// the old one to the disk then.
		kfake.BrokerConfigs(map[string]string{"log.segment.bytes": "1073741824"}),
	}
	if strings.HasSuffix(os.Getenv(dirVar), "synced") {
		options = append(options, kfake.SyncWrites())
	}
	c, err := kfake.NewCluster(options...)
	if err != nil {
		return err
	}
	fmt.Println(c.ListenAddrs()[0])
	select {}
}

// server is a process in a role.
type server struct {
	*child.Process
	address string
}

func startRole(b *testing.B, role string, env ...string) *server {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), roleVar+"="+role), env...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = p.Signal(syscall.SIGKILL)
		<-p.Done()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return &server{p, strings.TrimSpace(line)}
}

// cpu is what the process has used so far, in user and kernel mode, from the
// operating system's accounting.
func (s *server) cpu(b *testing.B) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID()))
	if err != nil {
		b.Fatal(err)
	}
	// The name in parentheses may hold anything; the fields follow it. utime and
	// stime are fields 14 and 15, in hundredths of a second.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	var utime, stime int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &utime, &stime); err != nil {
		b.Fatal(err)
	}
	return time.Duration(utime+stime) * 10 * time.Millisecond
}

// stolen is how much of the machine's time, in hundredths of a second of all its
// processors, has passed so far, and how much of it the hypervisor gave to others. What
// was measured while that grew says little.
func stolen(b *testing.B) (part, all int64) {
	b.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		b.Fatal(err)
	}
	var user, nice, system, idle, wait, irq, soft int64
	if _, err := fmt.Sscan(strings.TrimPrefix(string(text), "cpu"), &user, &nice, &system, &idle, &wait, &irq, &soft, &part); err != nil {
		b.Fatal(err)
	}
	return part, user + nice + system + idle + wait + irq + soft + part
}

const (
	// mostStolen is up to what share of the machine a measurement may have missed.
	mostStolen = 0.01
	// mostTries is how often one is made. Between two the machine rests, each time longer
	// by a breather: what it may use in a while is bounded on some.
	mostTries = 4
	breather  = 5 * time.Second
)

// quiet makes a measurement, and makes it again when the hypervisor gave more than
// mostStolen of the machine to others meanwhile. It reports what was stolen in the last
// try, and which that was. One of less than a second cannot be told, and is made once.
//
// Each begins with nothing left to be brought to the disk: the system does that half a
// minute late, and who is measured then would pay for what others wrote.
func quiet(b *testing.B, measure func()) {
	b.Helper()
	for try := 1; ; try++ {
		syscall.Sync()
		start := time.Now()
		partThen, allThen := stolen(b)
		measure()
		part, all := stolen(b)
		share := float64(part-partThen) / float64(max(1, all-allThen))
		if share <= mostStolen || try == mostTries || time.Since(start) < time.Second {
			b.ReportMetric(100*share, "stolen-%")
			b.ReportMetric(float64(try), "tries")
			return
		}
		time.Sleep(time.Duration(try) * breather)
	}
}

// rss is the process's resident memory in bytes.
func (s *server) rss(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.PID()))
	if err != nil {
		b.Fatal(err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return float64(resident * int64(os.Getpagesize()))
}

// BenchmarkTrack compares POST /v1/track, acknowledged by a broker on disk, with
// a bare net/http handler that reads the same bodies. They take turns, because
// the machine's speed changes with the hour.
func BenchmarkTrack(b *testing.B) {
	secret := account.NewSecret()
	broker := startRole(b, "broker", dirVar+"="+b.TempDir())
	synced := startRole(b, "broker", dirVar+"="+b.TempDir()+"/synced")
	servers := []struct {
		name   string
		server *server
	}{
		{"bare", startRole(b, "bare")},
		{"track", startRole(b, "ingest", brokerVar+"="+broker.address, secretVar+"="+secret)},
		{"track-synced", startRole(b, "ingest", brokerVar+"="+synced.address, secretVar+"="+secret)},
	}
	for _, connections := range []int{64, 256} {
		for round := range 2 {
			for _, s := range servers {
				b.Run(fmt.Sprintf("%s/connections=%d/round=%d", s.name, connections, round), func(b *testing.B) {
					benchRequests(b, s.server, "/v1/track", secret, connections, trackBodies(), 1)
				})
			}
		}
	}
}

// BenchmarkBatch compares batches of 100 with the same ones that are decoded,
// priced and answered without Kafka.
func BenchmarkBatch(b *testing.B) {
	secret := account.NewSecret()
	broker := startRole(b, "broker", dirVar+"="+b.TempDir())
	priced := startRole(b, "priced")
	server := startRole(b, "ingest", brokerVar+"="+broker.address, secretVar+"="+secret)
	for round := range 2 {
		b.Run(fmt.Sprintf("priced/batch=100/connections=16/round=%d", round), func(b *testing.B) {
			benchRequests(b, priced, "/", secret, 16, batchBodies(100), 100)
		})
		b.Run(fmt.Sprintf("batch=100/connections=16/round=%d", round), func(b *testing.B) {
			benchRequests(b, server, "/v1/track/batch", secret, 16, batchBodies(100), 100)
		})
	}
}

// BenchmarkLatency sends single events at half of the rate that the server just
// showed to be its highest; each round asks for that again, because the machine's
// speed changes. A request's time starts when it is due, not when there is a
// connection for it.
func BenchmarkLatency(b *testing.B) {
	const connections = 256
	secret := account.NewSecret()
	broker := startRole(b, "broker", dirVar+"="+b.TempDir())
	server := startRole(b, "ingest", brokerVar+"="+broker.address, secretVar+"="+secret)
	requests := rawRequests(server.address, "/v1/track", secret, trackBodies())
	hammer(b, server.address, requests, connections, 50_000) // warm up
	for round := range 4 {
		const most = 50_000
		var rate float64
		quiet(b, func() {
			start := time.Now()
			hammer(b, server.address, requests, connections, most)
			rate = most / time.Since(start).Seconds() / 2
		})
		b.Run(fmt.Sprintf("half-rate/round=%d", round), func(b *testing.B) {
			quiet(b, func() {
				cpu := server.cpu(b)
				times := hammerAt(b, server.address, requests, connections, b.N, rate)
				cpu = server.cpu(b) - cpu
				slices.Sort(times)
				b.ReportMetric(rate, "events/s")
				b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
				b.ReportMetric(float64(cpu.Nanoseconds())/1000/float64(b.N), "server-cpu-us/event")
				b.ReportMetric(0, "ns/op")
			})
		})
	}
}

// BenchmarkAllocations counts what an event leaves to the collector on its way from a
// connection to Kafka's acknowledgement. Client and server share this process; the client
// allocates next to nothing for a request.
func BenchmarkAllocations(b *testing.B) {
	secret := account.NewSecret()
	b.Setenv(secretVar, secret)
	broker := startRole(b, "broker", dirVar+"="+b.TempDir())
	client, err := kgo.NewClient(append(record.ProducerOptions(wire.EventsTopic), kgo.SeedBrokers(broker.address))...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := httpserver.New(benchServer(DefaultConfig(), client).Handler(), httpserver.Config{})
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	defer func() {
		if err := server.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			b.Error(err)
		}
	}()
	for _, way := range []struct {
		name, path  string
		connections int
		bodies      []string
		events      int
	}{
		{"track", "/v1/track", 256, trackBodies(), 1},
		{"batch=100", "/v1/track/batch", 16, batchBodies(100), 100},
	} {
		b.Run(way.name, func(b *testing.B) {
			requests := rawRequests(l.Addr().String(), way.path, secret, way.bodies)
			allocated := func(n int) (bytes, objects float64) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				hammer(b, l.Addr().String(), requests, way.connections, n)
				runtime.ReadMemStats(&after)
				return float64(after.TotalAlloc - before.TotalAlloc), float64(after.Mallocs - before.Mallocs)
			}
			allocated(10 * way.connections)                            // warm up
			connectBytes, connectObjects := allocated(way.connections) // is not counted
			bytes, objects := allocated(way.connections + b.N)
			events := float64(b.N * way.events)
			b.ReportMetric((bytes-connectBytes)/events, "B/event")
			b.ReportMetric((objects-connectObjects)/events, "allocs/event")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func rawRequests(address, path, secret string, bodies []string) [][]byte {
	requests := make([][]byte, len(bodies))
	for i, body := range bodies {
		requests[i] = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			path, address, secret, len(body), body)
	}
	return requests
}

// benchRequests sends b.N requests and measures the server.
func benchRequests(b *testing.B, s *server, path, secret string, connections int, bodies []string, eventsEach int) {
	requests := rawRequests(s.address, path, secret, bodies)
	quiet(b, func() {
		hammer(b, s.address, requests, connections, max(connections, b.N/10)) // warm up
		s.measure(b, b.N*eventsEach, func() { hammer(b, s.address, requests, connections, b.N) })
	})
}

// measure reports events a second, the server's CPU time for each, and its memory.
func (s *server) measure(b *testing.B, events int, send func()) {
	b.Helper()
	cpu := s.cpu(b)
	b.ResetTimer()
	b.StartTimer()
	send()
	b.StopTimer()
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64((s.cpu(b)-cpu).Nanoseconds())/1000/float64(events), "server-cpu-us/event")
	b.ReportMetric(s.rss(b)/(1<<20), "server-MiB")
	b.ReportMetric(0, "ns/op")
}
