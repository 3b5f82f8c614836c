package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/httpserver"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/problem"
	"github.com/outlayhq/outlay/schema/topic"
)

// Keys looks API keys up; account.Directory is the real one.
type Keys interface {
	Lookup(ctx context.Context, h account.Hash, from account.Asker) (account.Credential, bool, error)
	RefusedLookups() int64
	Ready() error
	Age() time.Duration
	Size() int
}

// Caps knows the caps of agents and accounts; lease.Gate is the real one.
type Caps interface {
	record.Caps
	// Standing returns the state of a cap; ok is false without one.
	Standing(ctx context.Context, scope budget.Scope) (s lease.Standing, ok bool, err error)
	// Known returns the state of the tightest cap of an agent as far as is known without
	// asking again; ok is false without one.
	Known(ctx context.Context, agent budget.Scope) (s lease.Standing, ok bool)
	Ready() bool
}

// Deps are what a Server works with; the caller owns and closes them after the
// HTTP server was shut down.
type Deps struct {
	Keys   Keys
	Caps   Caps
	Limits Limits
	Checks Checks
	// Replays is asked about events with an idempotency key that a cap refuses.
	Replays record.Replays
	// Prices returns the price book that an account is charged by, or nil while
	// it is not known yet.
	Prices func(account schema.ID) *price.Book
	// TrustedProxies are addresses and networks whose X-Forwarded-For is believed. They passed ValidateProxies.
	TrustedProxies []string
	// Kafka was made with record.ProducerOptions for Topic.
	Kafka   *kgo.Client
	Topic   string
	Metrics prometheus.Registerer
	Log     *slog.Logger
	Now     func() time.Time
}

// Server answers the tracking endpoints.
type Server struct {
	cfg      Config
	keys     Keys
	caps     Caps
	limits   Limits
	checks   Checks
	prices   func(schema.ID) *price.Book
	kafka    *kgo.Client
	topic    string
	recorder *record.Recorder
	proxies  []string
	metrics  *metrics
	log      *slog.Logger
	now      func() time.Time
}

// newEngine returns a router that prints nothing by itself.
func newEngine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	return gin.New()
}

// ValidateProxies returns an error if the proxies are neither addresses nor networks.
func ValidateProxies(proxies []string) error {
	if err := newEngine().SetTrustedProxies(proxies); err != nil {
		return fmt.Errorf("ingest: --trusted-proxies: %w", err)
	}
	return nil
}

// New returns a Server. Its configuration was validated.
func New(cfg Config, d Deps) *Server {
	m := newMetrics(d.Metrics)
	m.keys(d.Keys)
	return &Server{
		cfg: cfg, keys: d.Keys, caps: d.Caps, limits: d.Limits, checks: d.Checks, prices: d.Prices, kafka: d.Kafka, topic: d.Topic,
		recorder: record.New(record.Config{
			ProduceTimeout: cfg.ProduceTimeout, MaxRequests: cfg.MaxRequests, MaxBufferedBytes: cfg.MaxBufferedBytes, CachedKeys: cfg.RecentKeys,
		}, record.Deps{Caps: d.Caps, Replays: d.Replays, Kafka: d.Kafka, Metrics: d.Metrics, Log: d.Log, Now: d.Now}),
		proxies: d.TrustedProxies, metrics: m, log: d.Log, now: d.Now,
	}
}

// Handler returns the routes, in the order of the OpenAPI document.
func (s *Server) Handler() http.Handler {
	r := newEngine()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	// Limits go by key. Only look-ups of keys that are not known go by address, and an
	// address in a header is whatever its sender wants it to be. X-Real-IP, which gin
	// believes as well, is not a list: a proxy that only appends to X-Forwarded-For would
	// let a client set it.
	r.RemoteIPHeaders = []string{"X-Forwarded-For"}
	if err := r.SetTrustedProxies(s.proxies); err != nil {
		panic("BUG: the proxies were not validated: " + err.Error())
	}
	r.Use(s.recover)
	r.NoRoute(s.handle("other", func(*gin.Context) error {
		return problem.New(problem.NotFound, "There is no such path; the tracking endpoint is POST /v1/track.")
	}))
	r.NoMethod(s.handle("other", func(*gin.Context) error {
		return problem.New(problem.MethodNotAllowed, "This path takes POST only.")
	}))

	r.POST("/v1/track", s.handle("/v1/track", s.track))
	r.POST("/v1/events", s.handle("/v1/events", s.track))
	r.POST("/v1/track/batch", s.handle("/v1/track/batch", s.trackBatch))
	r.POST("/v1/traces", s.handle("/v1/traces", s.traces))
	r.POST("/v1/budgets/check", s.handle("/v1/budgets/check", s.checkBudget))
	return compressed(r)
}

// minCompressed is the size in bytes from which a response is compressed for clients
// that accept gzip. A smaller one, such as that of a single event, fits into one packet
// as it is.
const minCompressed = 1024

// compressed sends the responses of h gzipped to clients that accept it. It needs no
// memory between requests: the other levels keep a megabyte for each request under
// way, for a tenth of the size at most.
func compressed(h http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(minCompressed), gzhttp.CompressionLevel(gzip.StatelessCompression), gzhttp.EnableZstd(false))
	if err != nil {
		panic("BUG: gzip is not set up right: " + err.Error())
	}
	return wrap(h)
}

// Run returns memory to the system after Kafka did not answer for a while, until ctx ends.
func (s *Server) Run(ctx context.Context) { s.recorder.ReturnMemory(ctx) }

// Ready returns nil when requests can be answered: the API keys were loaded and
// Kafka takes events for the topic.
func (s *Server) Ready(ctx context.Context) error {
	if err := s.keys.Ready(); err != nil {
		return err
	}
	if !s.caps.Ready() {
		return errors.New("caps are not loaded yet")
	}
	if err := topic.TakesEvents(ctx, s.kafka, s.topic); err != nil {
		return err
	}
	return s.recorder.Ready()
}

// closeConnection ends the connection of a body in chunks. One that has a length as
// well may hide another request from a proxy, which has to end with it (RFC 9112,
// section 6.1); net/http reads the chunks, and does not report that there was a length.
var closeConnection = []string{"close"}

// handle is the one place where errors become answers.
func (s *Server) handle(route string, h func(*gin.Context) error) gin.HandlerFunc {
	counter := s.metrics.route(route)
	return func(c *gin.Context) {
		id := newRequestID(c.Request, s.now)
		id.set(c.Writer)
		if c.Request.TransferEncoding != nil {
			c.Writer.Header()["Connection"] = closeConnection
		}
		err := h(c)
		if err != nil {
			s.refuse(c, id.String(), err)
		}
		counter.answered(c.Writer.Status())
	}
}

func (s *Server) refuse(c *gin.Context, requestID string, err error) {
	p := problem.From(err)
	if !errors.As(err, new(*problem.Problem)) {
		s.log.ErrorContext(c.Request.Context(), "request not answered", "request_id", requestID, "error", err)
	}
	s.metrics.refused.WithLabelValues(string(p.Code)).Inc()
	httpserver.DiscardBody(c.Request)
	problem.Write(c.Writer, requestID, p)
}

// recover answers 500 for a panic, which is a bug, and keeps the process alive.
func (s *Server) recover(c *gin.Context) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v)
		}
		requestID := c.Writer.Header().Get("X-Request-Id")
		s.log.ErrorContext(c.Request.Context(), "handler panicked", "panic", fmt.Sprint(v), "request_id", requestID)
		if c.Writer.Written() {
			panic(http.ErrAbortHandler)
		}
		problem.Write(c.Writer, requestID, errors.New("panic"))
	}()
	c.Next()
}
