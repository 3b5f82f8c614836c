package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/outlayhq/outlay/schema/httpserver"
)

// listenAddress completes an address that is only a port, which is one of the loopback:
// nobody serves other machines by accident. ":8080" is every address of the machine.
func listenAddress(address string) string {
	if _, err := strconv.ParseUint(address, 10, 16); err == nil {
		return net.JoinHostPort("127.0.0.1", address)
	}
	return address
}

// bind takes an address, so that a port that is taken is an error before
// anything else has started. flag names the flag to mend.
func bind(ctx context.Context, flag, address string) (net.Listener, error) {
	// Each error names what to do, because a taken port is the first thing that goes wrong.
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listenAddress(address))
	var wrong *net.AddrError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("another program listens on %s: stop it, or choose another address with %s", listenAddress(address), flag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s may not be listened on by this user: choose a port above 1023 with %s", listenAddress(address), flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is no address of this machine: choose one with %s", listenAddress(address), flag)
	case errors.As(err, &wrong):
		return nil, fmt.Errorf("%s %q is not an address: it looks like 127.0.0.1:8080, :8080 for every address of the machine, or 8080", flag, address)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

// check is one dependency of a process for /readyz.
type check struct {
	name  string
	ready func(context.Context) error
}

// newRegistry returns a registry with the metrics of the process itself.
func newRegistry() *prometheus.Registry {
	// Not the library's global registry: tests run several processes in one.
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// registerConnections adds the metrics of the public listener's connections.
func registerConnections(r prometheus.Registerer, c *httpserver.Connections) {
	// The counts are kept by the listener; metrics only read them.
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "outlay_http_connections",
		Help: "Open connections of the public listener.",
	}, func() float64 { return float64(c.Open()) })
	for state, closed := range map[string]func() int64{"waiting": c.ClosedWaiting, "new": c.ClosedNew} {
		f.NewCounterFunc(prometheus.CounterOpts{
			Name:        "outlay_http_closed_connections_total",
			Help:        "Connections closed because there were too many: waiting ones without a request, and new ones while all others had a request under way.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(closed()) })
	}
}

// opsHandler serves what is for operators only.
func opsHandler(r *prometheus.Registry, checks ...check) http.Handler {
	mux := http.NewServeMux()
	// The profiles of pprof show code and data of the process: this listener is not for the public.
	mux.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, checks) })
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// readyTimeout bounds the answer of /readyz: a probe does not wait longer.
const readyTimeout = 2 * time.Second

// ready answers 200 when every dependency answers, else 503 and which does not. All are
// asked at once: one that does not answer leaves the others their time.
func ready(w http.ResponseWriter, r *http.Request, checks []check) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	// A place for each check, so that the order of the lines does not change from probe to probe.
	failed := make([]error, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() {
			if err := c.ready(ctx); err != nil {
				failed[i] = fmt.Errorf("%s: %w", c.name, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
