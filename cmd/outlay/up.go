package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/deploy/broker"
	"github.com/outlayhq/outlay/deploy/postgres"
	"github.com/outlayhq/outlay/ingest"
	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/limit"
	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/pricing"
	"github.com/outlayhq/outlay/schema/secret"
)

// upCommand runs everything in one process. It has the flags of all tiers but those of the connections between them.
type upCommand struct {
	listenFlags
	DataDir     string          `name:"data-dir" default:"./data" help:"Directory for everything that is kept: events, database, keys."`
	DatabaseURL string          `name:"database-url" placeholder:"URL" help:"Use this PostgreSQL or TimescaleDB instead of starting one."`
	Ingest      ingest.Config   `embed:""`
	Caps        lease.Config    `embed:""`
	Plans       limit.Config    `embed:""`
	Limits      query.Limits    `embed:""`
	Prices      pricing.Config  `embed:""`
	Processor   processorConfig `embed:""`
	proxyFlags
	publicFlags
	identityFlags
}

// Run starts broker, database and all tiers, and ends when ctx does. What was
// started last stops first.
func (c *upCommand) Run(ctx context.Context, log *slog.Logger) (err error) {
	if err := os.MkdirAll(c.DataDir, 0o755); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	// Two processes on one broker directory would destroy each other's log.
	release, err := lockDataDir(c.DataDir)
	if err != nil {
		return err
	}
	defer release()
	p := &process{registry: newRegistry(), log: log, writeTimeout: queryWriteTimeout}
	// The addresses are taken first: a second `outlay up` must not touch the
	// data of the first.
	if err := p.bind(ctx, c.listenFlags); err != nil {
		return err
	}
	// Broker and database are started before the tiers and stopped after them, by the order of the defers.
	kafkaBroker, err := broker.Start(filepath.Join(c.DataDir, "kafka"), log)
	if err != nil {
		return err
	}
	defer kafkaBroker.Close()
	// With a database of the operator's all tiers sign in as its user; roles are the operator's choice.
	database := databaseFlags{DatabaseURL: c.DatabaseURL}
	var passwords rolePasswords
	if c.DatabaseURL == "" {
		server, err := postgres.Start(ctx, postgres.Config{DataDir: filepath.Join(c.DataDir, "postgres"), Log: log})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stopPostgres(ctx, server)) }()
		database.DatabaseURL = server.URL()
		// Nobody else signs in as a tier, so each start makes passwords of its own.
		passwords = rolePasswords{IngestPassword: rand.Text(), ProcessorPassword: rand.Text(), QueryPassword: rand.Text()}
	}
	if err := migrateUp(ctx, database, passwords, log); err != nil {
		return err
	}
	pools, err := database.tierPools(ctx, passwords)
	if err != nil {
		return err
	}
	defer pools.close()
	kafka, err := kafkaFlags{Brokers: kafkaBroker.Addresses()}.options()
	if err != nil {
		return err
	}
	kafka = append(kafka, broker.ClientOption())
	if err := c.assemble(ctx, p, pools, kafka); err != nil {
		return err
	}
	p.tiers = append(p.tiers, &tier{name: "broker", ready: func(context.Context) error { return kafkaBroker.Ready() }})
	// The account is made before anything is served, so the printed credentials work when they appear.
	first, err := c.firstAccount(ctx, pools.owner, "http://"+reachable(p.public.Addr()))
	if err != nil {
		return err
	}
	go c.announce(ctx, p, first)
	return p.run(ctx)
}

// stopTimeout bounds a database's clean shutdown; after it the next start
// recovers.
const stopTimeout = 30 * time.Second

// stopPostgres stops the server when all that used it has ended.
func stopPostgres(ctx context.Context, server *postgres.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return server.Stop(ctx)
}

// migrateUp applies the schema with the passwords of the tiers' roles, which are empty for an operator's own database.
func migrateUp(ctx context.Context, database databaseFlags, passwords rolePasswords, log *slog.Logger) error {
	conn, err := database.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return migrations.Up(ctx, conn, migrations.Options{
		IngestPassword: passwords.IngestPassword, ProcessorPassword: passwords.ProcessorPassword, QueryPassword: passwords.QueryPassword, Log: log,
	})
}

// upTopics suit one broker and one processor: the broker syncs every partition that a
// request writes to, one after the other.
var upTopics = topicFlags{Partitions: 1, Replication: 1, retentionFlags: retentionFlags{7 * 24 * time.Hour}}

// assemble puts all tiers behind one address.
func (c *upCommand) assemble(ctx context.Context, p *process, pools *tierPools, kafka []kgo.Opt) error {
	// Topics come before the tiers, which do not start without them.
	admin, err := kgo.NewClient(kafka...)
	if err != nil {
		return fmt.Errorf("make the kafka client: %w", err)
	}
	defer admin.Close()
	if err := upTopics.ensure(ctx, admin, defaultTopics, p.log); err != nil {
		return err
	}
	// The key is kept: with a new one at every start all users would have to sign in again.
	keyFile := filepath.Join(c.DataDir, "jwt-key.pem")
	if err := ensureKeyFile(keyFile); err != nil {
		return err
	}
	// Losing this file loses the signing secrets of all channels, so it lies beside the data that needs it.
	secrets, err := ensureSecrets(filepath.Join(c.DataDir, "secrets.key"))
	if err != nil {
		return err
	}
	books, err := newBooks(c.Prices, pools.ingest, p.registry, p.log)
	if err != nil {
		return err
	}
	limitMemory(upMemory + 2*c.Ingest.MaxBufferedBytes)
	ingestTier, err := newIngest(c.Ingest, c.proxyFlags, c.Caps, c.Plans, books, pools.ingest, kafka, defaultTopics, p.registry, p.log)
	if err != nil {
		return err
	}
	processorTier, err := newProcessor(c.Processor, processorDeps{pools.processor, pools.processor, pools.owner, kafka, defaultTopics, secrets}, p.registry, p.log)
	if err != nil {
		return err
	}
	queryTier, err := newQuery(queryConfig{
		keyFile: keyFile, trustedProxies: c.TrustedProxies, identityFlags: c.identityFlags, books: books, plans: c.Plans, limits: c.Limits,
		publicFlags: publicFlags{cmp.Or(c.PublicURL, "http://"+reachable(p.public.Addr()))},
		smtpHost:    c.Processor.Mail.SMTPHost, webhooks: c.Processor.Webhooks, secrets: secrets,
	}, pools.query, p.registry, p.log)
	if err != nil {
		return err
	}
	p.tiers = []*tier{ingestTier, processorTier, queryTier}
	p.handler = oneAddress(ingestTier.handler, queryTier.handler)
	return nil
}

// reachable is the host and port by which this machine reaches a listener.
func reachable(address net.Addr) string {
	// 0.0.0.0 and :: are no addresses to connect to.
	host, port, err := net.SplitHostPort(address.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return address.String()
}

// oneAddress gives the tracking endpoints to ingest and everything else to query,
// as the gateway of a larger installation does. /v1/events belongs to both: it is
// written with POST and read with GET.
func oneAddress(ingestTier, queryTier http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/track", "/v1/track/batch", "/v1/traces", "/v1/budgets/check":
			ingestTier.ServeHTTP(w, r)
			return
		case "/v1/events":
			if r.Method == http.MethodPost {
				ingestTier.ServeHTTP(w, r)
				return
			}
		}
		queryTier.ServeHTTP(w, r)
	})
}

// ensureKeyFile makes the key that signs tokens at the first start.
func ensureKeyFile(path string) error {
	if err := auth.CreateKeyFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// ensureSecrets reads the keys that encrypt what the database keeps, and makes one at the
// first start.
func ensureSecrets(path string) (*secret.Keys, error) {
	if err := secret.Create(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return secret.Load(path)
}
