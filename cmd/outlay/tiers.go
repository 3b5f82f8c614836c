package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/ingest"
	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/limit"
	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/ingest/replay"
	"github.com/outlayhq/outlay/processor"
	"github.com/outlayhq/outlay/processor/alerting"
	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/processor/notify"
	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/pricing"
	"github.com/outlayhq/outlay/schema/secret"
	"github.com/outlayhq/outlay/schema/webhook"
)

// Pool sizes of each tier. A database with max_connections 100 carries several
// replicas of each.
const (
	ingestPool    = 8
	processorPool = 9
	upkeepPool    = 4
	jobsPool      = 6
	queryPool     = 10
)

// Write timeouts: a tracking answer is small, an export may take long.
const (
	ingestWriteTimeout = 30 * time.Second
	queryWriteTimeout  = 10 * time.Minute
	opsWriteTimeout    = 2 * time.Minute // a CPU profile takes its time
)

// tier is a tier that was put together but does not run yet.
type tier struct {
	// name is that of the command, for logs and errors.
	name    string
	handler http.Handler // nil for the processor
	// ready returns why the tier cannot do its work, or nil.
	ready func(context.Context) error
	// databases are what run works with; it begins, and working is true, when all of them are ready.
	databases []*pgxpool.Pool
	working   atomic.Bool
	// run is the work besides answering requests; it ends with its context.
	run func(context.Context) error
	// flush comes after the last request was answered and run has ended.
	flush func(context.Context) error
}

// newIngest puts the ingest tier together. The tier owns its Kafka client, which flush closes; the pool is the caller's.
func newIngest(cfg ingest.Config, proxies proxyFlags, caps lease.Config, plans limit.Config, books *pricing.Books, pool *pgxpool.Pool, kafka []kgo.Opt, topics topicNames, r *prometheus.Registry, log *slog.Logger) (*tier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := plans.Validate(); err != nil {
		return nil, err
	}
	if err := ingest.ValidateProxies(proxies.TrustedProxies); err != nil {
		return nil, err
	}
	// One producer for the whole tier: its batches are what makes single events cheap.
	client, err := kgo.NewClient(slices.Concat(kafka, record.ProducerOptions(topics.Topic))...)
	if err != nil {
		return nil, fmt.Errorf("make the kafka producer: %w", err)
	}
	// What ingest decides by is cached in memory and kept fresh by Run below.
	directory := account.NewDirectory(pool, log, time.Now)
	// gate charges caps, limiter counts requests; both work from shares that they lease from the database.
	gate := lease.New(caps, lease.Deps{Pool: pool, Metrics: r, Log: log, Now: time.Now})
	limiter := limit.New(plans, limit.Deps{Pool: pool, Metrics: r, Log: log, Now: time.Now})
	replays := replay.New(replay.Deps{Pool: pool, Kafka: client, Topic: topics.Topic, Metrics: r, Log: log})
	server := ingest.New(cfg, ingest.Deps{
		Keys: directory, Caps: gate, Limits: limiter, Checks: limit.NewChecks(plans, time.Now), Replays: replays, Prices: books.Of,
		TrustedProxies: proxies.TrustedProxies, Kafka: client, Topic: topics.Topic, Metrics: r, Log: log, Now: time.Now,
	})
	return &tier{
		name: "ingest", handler: server.Handler(), databases: []*pgxpool.Pool{pool},
		ready: func(ctx context.Context) error { return errors.Join(books.Ready(), server.Ready(ctx)) },
		run: func(ctx context.Context) error {
			var wg sync.WaitGroup
			wg.Go(func() { directory.Run(ctx) })
			wg.Go(func() { gate.Run(ctx) })
			wg.Go(func() { limiter.Run(ctx) })
			wg.Go(func() { books.Run(ctx) })
			wg.Go(func() { server.Run(ctx) })
			wg.Wait()
			return nil
		},
		flush: func(ctx context.Context) error {
			defer client.Close()
			return client.Flush(ctx)
		},
	}, nil
}

// newBooks makes the price books, which ingest charges by and query shows. Without a registry they have no metrics.
func newBooks(cfg pricing.Config, pool *pgxpool.Pool, r prometheus.Registerer, log *slog.Logger) (*pricing.Books, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	// The books do nothing before they are run or asked.
	return pricing.New(cfg, pricing.Deps{Pool: pool, Metrics: r, Log: log, Now: time.Now}), nil
}

// processorDeps are what the processor works with. Jobs and upkeep have connections of their own, so that they never keep events
// waiting; those of upkeep are the owner's.
type processorDeps struct {
	pool, jobs, owner *pgxpool.Pool
	kafka             []kgo.Opt
	topics            topicNames
	secrets           *secret.Keys
}

// processorConfig is what a processor is given besides where everything is.
type processorConfig struct {
	processor.Config
	Mail     mail.Config     `embed:""`
	Alerts   alerting.Config `embed:""`
	Webhooks webhook.Config  `embed:""`
}

// validate returns the errors of all parts, each of which names its flag.
func (c processorConfig) validate() error {
	return errors.Join(c.Config.Validate(), c.Mail.Validate(), c.Alerts.Validate(), c.Webhooks.Validate())
}

// newProcessor puts the processor together: storing with upkeep, jobs, alerting and messages. When one of them fails, all end.
func newProcessor(cfg processorConfig, d processorDeps, r *prometheus.Registry, log *slog.Logger) (*tier, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := processor.New(cfg.Config, processor.Deps{
		Pool: d.pool, Owner: d.owner, Kafka: d.kafka, Topic: d.topics.Topic, DeadLetters: d.topics.DeadLetters,
		Metrics: r, Log: log, Now: time.Now,
	})
	// Jobs, alerts and messages share nothing with storing but the process.
	jobs, err := newJobs(cfg.Mail, d.jobs, d.topics.Topic, r, log)
	if err != nil {
		return nil, err
	}
	alerts := alerting.New(cfg.Alerts, alerting.Deps{Pool: d.pool, Topic: d.topics.Topic, Metrics: r, Log: log, Now: time.Now})
	notifier := notify.New(cfg.Webhooks, notify.Deps{Pool: d.pool, Secrets: d.secrets, Mail: mail.New(cfg.Mail), Metrics: r, Log: log, Now: time.Now})
	return &tier{name: "processor", ready: p.Ready, databases: []*pgxpool.Pool{d.pool, d.jobs, d.owner}, run: func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return p.Run(ctx) })
		g.Go(func() error { return jobs.Run(ctx) })
		g.Go(func() error { return alerts.Run(ctx) })
		g.Go(func() error { return notifier.Run(ctx) })
		return g.Wait()
	}}, nil
}

// queryConfig is what the query tier is given besides its database.
type queryConfig struct {
	keyFile        string
	trustedProxies []string
	publicFlags
	identityFlags
	books  *pricing.Books
	plans  limit.Config
	limits query.Limits
	// smtpHost is the mail server of the processors; empty when they have none.
	smtpHost string
	webhooks webhook.Config
	secrets  *secret.Keys
}

// newQuery puts the query tier together. Its keys are read here, so a wrong file is an error of the start.
func newQuery(cfg queryConfig, pool *pgxpool.Pool, r *prometheus.Registry, log *slog.Logger) (*tier, error) {
	if err := cfg.webhooks.Validate(); err != nil {
		return nil, err
	}
	// Every replica needs the same key, or a token would be accepted by the one that made it only.
	keys, err := auth.LoadKeys(cfg.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--jwt-key-file: %w", err)
	}
	if cfg.PublicURL == "" {
		log.Warn("share links are paths without an address: set --public-url to where people reach this installation")
	}
	server, err := query.New(query.Config{
		Pool: pool, Keys: keys, TrustedProxies: cfg.trustedProxies, IdentityProviders: cfg.IdentityProviders,
		PublicURL: cfg.PublicURL, EventsPerMinute: cfg.plans.Of, Limits: cfg.limits, Prices: cfg.books.Published, Mail: cfg.smtpHost != "", Webhooks: cfg.webhooks, Secrets: cfg.secrets,
		Metrics: r, Log: log, Now: time.Now,
	})
	if err != nil {
		return nil, err
	}
	return &tier{
		name: "query", handler: server.Handler(), ready: server.Ready, databases: []*pgxpool.Pool{pool},
		run: func(ctx context.Context) error { server.Run(ctx); return nil },
	}, nil
}
