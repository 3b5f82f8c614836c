package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/deploy/postgres"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest/kafka"
	"github.com/outlayhq/outlay/schema/schematest/local"
)

// fleet is the servers that were started.
type fleet struct {
	postgres []*postgres.Server // The least edition first.
	kafka    *kafka.Broker
}

// startLimit bounds the start of all servers, the download of what is missing included.
const startLimit = 5 * time.Minute

// start starts the servers side by side. Those that did start are stopped when one does not.
func start(ctx context.Context, wanted string) (*fleet, error) {
	editions, err := choose(ctx, wanted)
	if err != nil {
		return nil, err
	}
	f := &fleet{postgres: make([]*postgres.Server, len(editions))}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var group errgroup.Group
	for i, e := range editions {
		group.Go(func() (err error) {
			f.postgres[i], err = local.Postgres(ctx, e)
			return err
		})
	}
	group.Go(func() error {
		libs, err := kafka.Resolve(ctx)
		if err != nil {
			return err
		}
		f.kafka, err = local.Kafka(ctx, libs)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

// choose returns the editions to start: those that are wanted, comma-separated, or all that are installed. Where nothing is
// installed it is the plain one, which is fetched.
func choose(ctx context.Context, wanted string) ([]migrations.Edition, error) {
	if wanted == "" {
		if installed := postgres.Editions(ctx); len(installed) > 0 {
			return installed, nil
		}
		return []migrations.Edition{migrations.Plain}, nil
	}
	var editions []migrations.Edition
	for _, name := range strings.Split(wanted, ",") {
		e := migrations.Edition(name)
		if !slices.Contains([]migrations.Edition{migrations.Plain, migrations.Apache, migrations.Community}, e) {
			return nil, fmt.Errorf("there is no edition %q", name)
		}
		editions = append(editions, e)
	}
	return editions, nil
}

// environment names the servers for the tests.
func (f *fleet) environment() []string {
	env := []string{local.KafkaVar + "=" + strings.Join(f.kafka.Addrs(), ",")}
	for _, s := range f.postgres {
		env = append(env, local.PostgresVar(s.Edition())+"="+s.URL())
	}
	return env
}

// stop stops what was started and removes what it stored.
func (f *fleet) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var problems []error
	for _, s := range f.postgres {
		if s != nil {
			problems = append(problems, s.Stop(ctx))
		}
	}
	if f.kafka != nil {
		f.kafka.Kill() // Nothing it stored is wanted.
	}
	return errors.Join(append(problems, local.Clean())...)
}

// report says what the command ran on, in the servers' own words. The last line says when the edition of production was
// not among them.
func (f *fleet) report(ctx context.Context, out io.Writer) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	fmt.Fprintln(out, "\nran on:")
	fmt.Fprintf(out, "  Apache Kafka %s\n", orError(kafka.Version(ctx, f.kafka.Addrs())))
	community := false
	for _, s := range f.postgres {
		fmt.Fprintf(out, "  PostgreSQL %s\n", orError(describe(ctx, s)))
		community = community || s.Edition() == migrations.Community
	}
	if !community {
		fmt.Fprintln(out, "NOT on TimescaleDB Community: it is not installed here")
	}
}

func orError(text string, err error) string {
	if err != nil {
		return "(unknown: " + err.Error() + ")"
	}
	return text
}

const selectTimescale = `
SELECT coalesce(current_setting('timescaledb.license', true), ''),
       coalesce((SELECT default_version FROM pg_available_extensions WHERE name = 'timescaledb'), '')`

// describe asks a server what it is.
func describe(ctx context.Context, s *postgres.Server) (string, error) {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var license, version string
	if err := conn.QueryRow(ctx, selectTimescale).Scan(&license, &version); err != nil {
		return "", err
	}
	switch license {
	case "timescale":
		return s.Version() + " with TimescaleDB Community " + version, nil
	case "apache":
		return s.Version() + " with TimescaleDB Apache-2 " + version, nil
	}
	return s.Version() + " without TimescaleDB", nil
}
