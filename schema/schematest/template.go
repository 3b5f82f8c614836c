package schematest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/advisory"
	"github.com/outlayhq/outlay/schema/migrations"
)

// templatePrefix begins the name of the database that those of the tests are copied from. Nobody can connect to it, which is
// what lets it be copied by many at once. The rest of the name stands for the migrations it was made with: a server may outlive
// a change of them.
const templatePrefix = "outlay_template_"

// template returns the template's name, and has it made by the first of all the processes that ask.
func (s *server) template() (string, error) {
	s.templateOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.templateName, s.templateErr = s.ensureTemplate(ctx)
	})
	if s.templateErr != nil {
		return "", fmt.Errorf("make the template of the tests' databases: %w", s.templateErr)
	}
	return s.templateName, nil
}

const lockTemplate = `SELECT pg_advisory_lock($1)`

// selectTemplate distinguishes a finished template from one whose maker was killed: only the finished one is closed to connections.
const selectTemplate = `SELECT NOT datallowconn FROM pg_database WHERE datname = $1`

func (s *server) ensureTemplate(ctx context.Context) (name string, err error) {
	sum, err := fingerprint()
	if err != nil {
		return "", err
	}
	name = templatePrefix + sum
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, lockTemplate, advisory.TestTemplate); err != nil {
		return "", fmt.Errorf("lock: %w", err)
	}
	finished := false
	err = conn.QueryRow(ctx, selectTemplate, name).Scan(&finished)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("look for it: %w", err)
	}
	if finished {
		return name, nil
	}
	return name, s.makeTemplate(ctx, conn, name)
}

// makeTemplate makes the template under the lock that conn holds.
func (s *server) makeTemplate(ctx context.Context, conn *pgx.Conn, name string) error {
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	if err := s.fillTemplate(ctx, name); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false"); err != nil {
		return fmt.Errorf("close it: %w", err)
	}
	return nil
}

// fillTemplate migrates the template, and ends the workers that TimescaleDB may have started in it: a database that somebody
// is connected to cannot be copied.
func (s *server) fillTemplate(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.urlOf(name))
	if err != nil {
		return fmt.Errorf("connect to it: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := migrations.Up(ctx, conn, migrations.Options{
		IngestPassword: TierPassword, ProcessorPassword: TierPassword, QueryPassword: TierPassword, Log: slog.New(slog.DiscardHandler),
	}); err != nil {
		return err
	}
	if s.edition == migrations.Plain {
		return nil
	}
	if _, err := conn.Exec(ctx, `SELECT _timescaledb_functions.stop_background_workers()`); err != nil {
		return fmt.Errorf("stop its workers: %w", err)
	}
	return nil
}

// fingerprint stands for the migrations as they are in the source tree that the test runs in.
func fingerprint() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = fs.WalkDir(os.DirFS(filepath.Join(root, "schema", "migrations")), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, "schema", "migrations", path))
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the migrations: %w", err)
	}
	return fmt.Sprintf("%.6x", sum.Sum(nil)), nil
}

// moduleRoot is the directory of go.mod: the working directory of a test, or one above it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod in the working directory or above")
		}
		dir = filepath.Dir(dir)
	}
}
