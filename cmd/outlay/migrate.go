package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/migrations"
)

// migrateCommand signs in as the owner of the tables. It is the only command that changes the schema.
type migrateCommand struct {
	databaseFlags
	topicFlags
	KafkaBrokers []string `name:"kafka-brokers" placeholder:"HOST:PORT" help:"Kafka bootstrap brokers, to make the topics as well."`
	rolePasswords
	RawRetention  time.Duration `name:"raw-retention" default:"0s" help:"How long single events are kept, such as 2160h for 90 days; 0 keeps them for ever. Sums by quarter hour, hour and day stay."`
	CompressAfter time.Duration `name:"compress-after" default:"168h" help:"Age at which events move to the columnstore (TimescaleDB Community)."`
	Status        bool          `help:"Only print the version of the schema."`
	topicNames
	kafkaAuthFlags
}

// rolePasswords let each program sign in to the database as a role of its own, which may do what the program needs.
type rolePasswords struct {
	IngestPassword    string `name:"ingest-password" placeholder:"PASSWORD" help:"Password for the role outlay_ingest. Prefer OUTLAY_INGEST_PASSWORD_FILE."`
	ProcessorPassword string `name:"processor-password" placeholder:"PASSWORD" help:"Password for the role outlay_processor. Prefer OUTLAY_PROCESSOR_PASSWORD_FILE."`
	QueryPassword     string `name:"query-password" placeholder:"PASSWORD" help:"Password for the role outlay_query. Prefer OUTLAY_QUERY_PASSWORD_FILE."`
	GrafanaPassword   string `name:"grafana-password" placeholder:"PASSWORD" help:"Password for the read-only role outlay_grafana. Prefer OUTLAY_GRAFANA_PASSWORD_FILE."`
}

// Run brings schema and topics up to date, or prints where they stand.
func (c *migrateCommand) Run(ctx context.Context, log *slog.Logger) error {
	// A migration may take longer than the timeouts of the tiers' pools allow.
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if c.Status {
		return printStatus(ctx, conn)
	}
	if err := migrations.Up(ctx, conn, migrations.Options{
		IngestPassword: c.IngestPassword, ProcessorPassword: c.ProcessorPassword, QueryPassword: c.QueryPassword,
		GrafanaPassword: c.GrafanaPassword, RawRetention: c.RawRetention, CompressAfter: c.CompressAfter, Log: log,
	}); err != nil {
		return err
	}
	// Topics are made after the schema: without them a tier is not ready, and writes nothing.
	if len(c.KafkaBrokers) == 0 {
		return printStatus(ctx, conn)
	}
	kafka, err := kafkaFlags{Brokers: c.KafkaBrokers, kafkaAuthFlags: c.kafkaAuthFlags}.options()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kafka...)
	if err != nil {
		return fmt.Errorf("make the kafka client: %w", err)
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return kafkaError(c.KafkaBrokers, err)
	}
	if err := c.ensure(ctx, client, c.topicNames, log); err != nil {
		return err
	}
	return printStatus(ctx, conn)
}

// printStatus prints which version the schema has and what is still to be applied.
func printStatus(ctx context.Context, conn *pgx.Conn) error {
	state, err := migrations.Status(ctx, conn)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "schema    version %d of %d\ndatabase  %s, PostgreSQL %s", state.Current, state.Latest, state.Server.Edition, state.Server.PostgresVersion)
	if state.Server.TimescaleVersion != "" {
		fmt.Fprintf(os.Stdout, ", TimescaleDB %s", state.Server.TimescaleVersion)
	}
	fmt.Fprintln(os.Stdout)
	if len(state.Pending) > 0 {
		fmt.Fprintf(os.Stdout, "pending   %s\n", strings.Join(state.Pending, ", "))
	}
	return nil
}
