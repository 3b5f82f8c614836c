package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/outlayhq/outlay/schema/cors"
	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/topic"
	"github.com/outlayhq/outlay/schema/wire"
)

// newLogger returns the log of the process. A lost database is logged by watchReadiness alone, see quietHandler.
func newLogger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		panic("BUG: kong let an unknown log level pass: " + level)
	}
	options := &slog.HandlerOptions{Level: l}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if format == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	return slog.New(quietHandler{handler})
}

// readSecret returns the content of a file without the line break at its end.
func readSecret(path string) (string, error) {
	// Secrets in files come from container platforms, which may add a line break.
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// listenFlags are the two addresses of every tier that serves HTTP.
type listenFlags struct {
	// Listen is plain HTTP: TLS ends at the gateway.
	Listen         string `default:"127.0.0.1:8080" help:"Address of the public listener. A port alone is one of the loopback, :8080 is every address of the machine."`
	MaxConnections int    `name:"max-connections" default:"10000" help:"Most connections of the public listener. One more closes the one that has been without a request for longest; when all have one under way, it is closed itself."`
	opsFlags
	CORS cors.Config `embed:""`
}

// publicFlags set the public addresses of the installation.
type publicFlags struct {
	PublicURL string `name:"public-url" placeholder:"URL" help:"Where people reach this installation, such as https://outlay.example.com; share links start with it. Without it they are paths, and with outlay up they start with the address of --listen."`
}

// opsFlags set the operations listener, which every process has. It has no authentication, so its default is the loopback.
type opsFlags struct {
	OpsListen string `name:"ops-listen" default:"127.0.0.1:9090" help:"Address for operators only: /metrics, /healthz, /readyz, /debug/pprof."`
}

// databaseFlags set the database to connect to.
type databaseFlags struct {
	DatabaseURL string `name:"database-url" required:"" placeholder:"URL" help:"PostgreSQL or TimescaleDB: postgres://user:password@host:5432/outlay."`
}

// connect opens one connection, for upkeep that takes as long as it takes.
func (f databaseFlags) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(f.DatabaseURL)
	if err != nil {
		return nil, errBadDatabaseURL
	}
	// Times in results are UTC, whatever the role's or the server's own setting is.
	cfg.RuntimeParams["application_name"] = "outlay-admin"
	cfg.RuntimeParams["timezone"] = "UTC"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, databaseError(cfg, err)
	}
	return conn, nil
}

// errBadDatabaseURL stands for pgx's own error, which may quote the password.
var errBadDatabaseURL = errors.New("--database-url is not a valid address; it looks like postgres://user:password@host:5432/outlay")

// poolSettings are what the tiers ask of their connections.
type poolSettings struct {
	// name is part of application_name in pg_stat_activity.
	name string
	// size is the most connections of the pool.
	size     int32
	timeouts bool // bound statements and locks; off for upkeep that takes long
}

// firstPing bounds how long a start waits for a database that does not answer. The
// tiers start without one.
const firstPing = 3 * time.Second

// refused reports whether the database answers and lets nobody in: with the wrong user
// or password, or without the database. It takes a change of settings to mend.
func refused(err error) bool {
	state := pgdb.SQLState(err)
	return strings.HasPrefix(state, "28") || state == "3D000"
}

// databaseError explains in one line why there is no connection.
func databaseError(cfg *pgx.ConnConfig, err error) error {
	// Of several hosts in the address the first is named.
	at := net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	var answer *pgconn.PgError
	switch {
	case errors.As(err, &answer) && answer.Code == "3D000":
		return fmt.Errorf("there is no database %q at %s: create it, or name another one in --database-url", cfg.Database, at)
	case refused(err):
		return fmt.Errorf("the database at %s does not let user %q in (%s): correct user and password in --database-url", at, cfg.User, answer.Message)
	}
	return fmt.Errorf("no connection to the database at %s: start it, or correct --database-url (%s)", at, databaseReason(err))
}

// databaseReason is why a database does not answer, without what the caller adds.
func databaseReason(err error) string {
	var answer *pgconn.PgError
	switch {
	case errors.As(err, &answer):
		return answer.Message
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, context.DeadlineExceeded):
		return "no response in time"
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// waitingForDatabase is databaseError for a tier, which goes on trying.
func waitingForDatabase(cfg *pgx.ConnConfig, err error) error {
	if refused(err) {
		return databaseError(cfg, err)
	}
	return fmt.Errorf("waiting for the database at %s: start it, or correct --database-url (%s)",
		net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))), databaseReason(err))
}

// pool makes a connection pool. It returns an error when the database refuses the
// settings, and none when it does not answer yet.
func (f databaseFlags) pool(ctx context.Context, s poolSettings) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(f.DatabaseURL)
	if err != nil {
		return nil, errBadDatabaseURL
	}
	// Timeouts are set by the session, so that a role's or the server's own do not apply.
	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = "outlay-" + s.name
	params["timezone"] = "UTC"
	if s.timeouts {
		params["statement_timeout"] = "30s"
		params["lock_timeout"] = "5s"
		params["idle_in_transaction_session_timeout"] = "10s"
	}
	cfg.MaxConns = s.size
	// A server that is gone is noticed before the tiers' own timeouts.
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, firstPing)
	defer cancel()
	if err := pool.Ping(ctx); refused(err) {
		pool.Close()
		return nil, databaseError(cfg.ConnConfig, err)
	}
	return pool, nil
}

// kafkaFlags set the brokers and how to connect to them.
type kafkaFlags struct {
	Brokers []string `name:"kafka-brokers" required:"" placeholder:"HOST:PORT" help:"Kafka bootstrap brokers, separated by commas."`
	topicNames
	kafkaAuthFlags
}

// topicNames let several installations share a Kafka.
type topicNames struct {
	Topic       string `name:"kafka-topic" default:"outlay.events.v1" help:"Topic of the events."`
	DeadLetters string `name:"kafka-dead-letter-topic" default:"outlay.dead-letters.v1" help:"Topic for records that cannot be stored."`
}

// defaultTopics are the names that the flags default to.
var defaultTopics = topicNames{Topic: wire.EventsTopic, DeadLetters: wire.DeadLettersTopic}

// kafkaAuthFlags set TLS and SASL for connections to the brokers.
type kafkaAuthFlags struct {
	// TLS and SASL are independent of each other.
	TLS          bool   `name:"kafka-tls" help:"Talk TLS to the brokers."`
	TLSCA        string `name:"kafka-tls-ca" type:"existingfile" placeholder:"FILE" help:"PEM file with the certificate authority of the brokers, if it is not a public one."`
	SASL         string `name:"kafka-sasl" default:"none" enum:"none,plain,scram-sha-256,scram-sha-512" help:"How to sign in: none, plain, scram-sha-256 or scram-sha-512."`
	SASLUser     string `name:"kafka-sasl-user" placeholder:"NAME" help:"User name for the brokers."`
	SASLPassword string `name:"kafka-sasl-password" placeholder:"PASSWORD" help:"Password for the brokers. Prefer OUTLAY_KAFKA_SASL_PASSWORD_FILE."`
}

// kafkaError explains in one line why there is no connection.
func kafkaError(brokers []string, err error) error {
	if topic.Answered(err) {
		return err
	}
	return fmt.Errorf("no connection to Kafka at %s: %s", strings.Join(brokers, ", "), topic.Advice(err))
}

// options are the franz-go options that every client of ours has.
func (f kafkaFlags) options() ([]kgo.Opt, error) {
	// Each client adds its own: the group of the consumer, the limits of the producer.
	opts := []kgo.Opt{
		kgo.SeedBrokers(f.Brokers...),
		kgo.ClientID("outlay"),
		// A broker that is gone is noticed by a failing dial, not by waiting.
		kgo.DialTimeout(3 * time.Second),
		kgo.MetadataMinAge(250 * time.Millisecond),
	}
	if f.TLS {
		cfg, err := f.tls()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(cfg))
	}
	if mechanism := f.mechanism(); mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

// tls returns the settings of connections to the brokers. The minimum is TLS 1.2.
func (f kafkaAuthFlags) tls() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.TLSCA == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(f.TLSCA)
	if err != nil {
		return nil, fmt.Errorf("read --kafka-tls-ca: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("--kafka-tls-ca holds no certificate in PEM form")
	}
	return cfg, nil
}

// mechanism returns how to sign in to the brokers, or nil to do it without SASL.
func (f kafkaAuthFlags) mechanism() sasl.Mechanism {
	switch f.SASL {
	case "plain":
		return plain.Auth{User: f.SASLUser, Pass: f.SASLPassword}.AsMechanism()
	case "scram-sha-256":
		return scram.Auth{User: f.SASLUser, Pass: f.SASLPassword}.AsSha256Mechanism()
	case "scram-sha-512":
		return scram.Auth{User: f.SASLUser, Pass: f.SASLPassword}.AsSha512Mechanism()
	}
	return nil
}
