package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/outlayhq/outlay/ingest"
	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/limit"
	"github.com/outlayhq/outlay/processor"
	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema/pricing"
	"github.com/outlayhq/outlay/schema/secret"
	"github.com/outlayhq/outlay/schema/webhook"
)

// stopFlags set how a tier behind a load balancer stops.
type stopFlags struct {
	ShutdownDelay time.Duration `name:"shutdown-delay" default:"0s" help:"How long to go on answering after SIGTERM, while /readyz already fails. Set it to what the load balancer needs to notice."`
}

// ingestCommand runs one replica of the ingest tier. Replicas share caps and rate limits through the database.
type ingestCommand struct {
	listenFlags
	stopFlags
	databaseFlags
	kafkaFlags
	proxyFlags
	ingest.Config
	Caps   lease.Config   `embed:""`
	Plans  limit.Config   `embed:""`
	Prices pricing.Config `embed:""`
}

// Run runs the ingest tier.
func (c *ingestCommand) Run(ctx context.Context, log *slog.Logger) error {
	// A database that is away is no error here: ingest answers from its caches as soon as it has filled them once.
	pool, err := c.pool(ctx, poolSettings{name: "ingest", size: ingestPool, timeouts: true})
	if err != nil {
		return err
	}
	defer pool.Close()
	kafka, err := c.options()
	if err != nil {
		return err
	}
	registry := newRegistry()
	books, err := newBooks(c.Prices, pool, registry, log)
	if err != nil {
		return err
	}
	// Every buffered byte may be there twice: as the request's body and as the record for Kafka.
	limitMemory(ingestMemory + 2*c.MaxBufferedBytes)
	t, err := newIngest(c.Config, c.proxyFlags, c.Caps, c.Plans, books, pool, kafka, c.topicNames, registry, log)
	if err != nil {
		return err
	}
	p := &process{registry: registry, log: log, shutdownDelay: c.ShutdownDelay, writeTimeout: ingestWriteTimeout}
	return p.runTier(ctx, c.listenFlags, t)
}

// processorCommand runs one processor: storing, upkeep, alerting, messages and jobs in one process.
type processorCommand struct {
	opsFlags
	databaseFlags
	kafkaFlags
	secretsFlags
	processorConfig
	UpkeepDatabaseURL string `name:"upkeep-database-url" placeholder:"URL" help:"The database, signed in as the owner of its tables, for whom alone TimescaleDB refreshes aggregates and drops chunks. Only upkeep uses it. Defaults to --database-url."`
}

// Run runs the processor.
func (c *processorCommand) Run(ctx context.Context, log *slog.Logger) error {
	if os.Getenv("GOGC") == "" { // The operator's own setting comes first.
		debug.SetGCPercent(processor.GCPercent)
	}
	pool, err := c.pool(ctx, poolSettings{name: "processor", size: processorPool, timeouts: true})
	if err != nil {
		return err
	}
	defer pool.Close()
	// Jobs may hold connections for minutes, and are not to keep events waiting.
	jobs, err := c.pool(ctx, poolSettings{name: "jobs", size: jobsPool, timeouts: true})
	if err != nil {
		return err
	}
	defer jobs.Close()
	owner, err := databaseFlags{DatabaseURL: cmp.Or(c.UpkeepDatabaseURL, c.DatabaseURL)}.pool(ctx, poolSettings{name: "upkeep", size: upkeepPool, timeouts: true})
	if err != nil {
		return err
	}
	defer owner.Close()
	kafka, err := c.options()
	if err != nil {
		return err
	}
	secrets, err := c.keys(ctx, log)
	if err != nil {
		return err
	}
	registry := newRegistry()
	t, err := newProcessor(c.processorConfig, processorDeps{pool, jobs, owner, kafka, c.topicNames, secrets}, registry, log)
	if err != nil {
		return err
	}
	// The processor has no public listener.
	p := &process{tiers: []*tier{t}, registry: registry, log: log}
	if p.ops, err = bind(ctx, "--ops-listen", c.OpsListen); err != nil {
		return err
	}
	log.InfoContext(ctx, "tier started", "tier", t.name, "ops", p.ops.Addr())
	return p.run(ctx)
}

// secretsFlags name the file of keys that encrypt the secrets in the database.
type secretsFlags struct {
	SecretsKeyFile string `name:"secrets-key-file" placeholder:"FILE" help:"Keys that encrypt signing secrets and Slack addresses in the database, one of 64 hexadecimal digits (openssl rand -hex 32) in a line: the first encrypts, all decrypt. The same for query and processor."`
}

// keys reads the key file, and notes that there is none.
func (f secretsFlags) keys(ctx context.Context, log *slog.Logger) (*secret.Keys, error) {
	keys, err := secret.Load(f.SecretsKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--secrets-key-file: %w", err)
	}
	if !keys.Encrypts() {
		log.WarnContext(ctx, "signing secrets and Slack addresses are kept in the database unencrypted: set --secrets-key-file")
	}
	return keys, nil
}

// proxyFlags name the proxies whose X-Forwarded-For is trusted.
type proxyFlags struct {
	TrustedProxies []string `name:"trusted-proxies" placeholder:"CIDR" help:"Proxies whose X-Forwarded-For is believed: the client is its last address that is not one of them. Failed sign-ins are slowed and look-ups of unknown API keys bounded by that address, and the audit log shows it. None by default."`
}

// queryCommand runs one replica of the query tier, which answers reads and the administration of accounts.
type queryCommand struct {
	listenFlags
	stopFlags
	databaseFlags
	JWTKeyFile string `name:"jwt-key-file" required:"" placeholder:"FILE" help:"PEM file with the Ed25519 key that signs tokens; the same on every replica. Make one with: openssl genpkey -algorithm ed25519"`
	proxyFlags
	publicFlags
	secretsFlags
	identityFlags
	SMTPHost string         `name:"smtp-host" placeholder:"HOST" help:"Mail server of the processors, given to both. Without one e-mail channels and report schedules are refused."`
	Webhooks webhook.Config `embed:""`
	Plans    limit.Config   `embed:""`
	Limits   query.Limits   `embed:""`
	Prices   pricing.Config `embed:""`
}

// Run runs the query tier.
func (c *queryCommand) Run(ctx context.Context, log *slog.Logger) error {
	pool, err := c.pool(ctx, poolSettings{name: "query", size: queryPool, timeouts: true})
	if err != nil {
		return err
	}
	defer pool.Close()
	registry := newRegistry()
	// Ingest counts what comes of the prices; here they are only shown.
	books, err := newBooks(c.Prices, pool, nil, log)
	if err != nil {
		return err
	}
	secrets, err := c.keys(ctx, log)
	if err != nil {
		return err
	}
	t, err := newQuery(queryConfig{
		keyFile: c.JWTKeyFile, trustedProxies: c.TrustedProxies, publicFlags: c.publicFlags, identityFlags: c.identityFlags,
		books: books, plans: c.Plans, limits: c.Limits, smtpHost: c.SMTPHost, webhooks: c.Webhooks, secrets: secrets,
	}, pool, registry, log)
	if err != nil {
		return err
	}
	// Published prices are read again and again, so that a new price book shows without a restart.
	t.run = bothRun(t.run, books.RunPublished)
	p := &process{registry: registry, log: log, shutdownDelay: c.ShutdownDelay, writeTimeout: queryWriteTimeout}
	return p.runTier(ctx, c.listenFlags, t)
}

// bothRun runs two things until their context ends.
func bothRun(run func(context.Context) error, other func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { other(ctx) })
		return run(ctx)
	}
}

// runTier runs an HTTP tier on its own two listeners.
func (p *process) runTier(ctx context.Context, f listenFlags, t *tier) error {
	p.tiers, p.handler = []*tier{t}, t.handler
	if err := p.bind(ctx, f); err != nil {
		return err
	}
	p.log.InfoContext(ctx, "tier started", "tier", t.name, "listen", p.public.Addr(), "ops", p.ops.Addr())
	return p.run(ctx)
}
