// Package migrations holds the database schema and brings a database up to it. Up runs from one place, "outlay migrate"
// or "outlay up", never from each replica at start. What keeps the tables in order afterwards runs in processor/upkeep.
// Released files under sql are never edited: a change is a new file.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"github.com/outlayhq/outlay/schema/advisory"
)

//go:embed sql
var files embed.FS

// versionTable is where tern keeps the number of the last migration applied.
const versionTable = "public.schema_version"

// ErrNewerSchema is returned for a database that a newer program has migrated.
var ErrNewerSchema = errors.New("the schema is newer than this program")

// ErrSearchPath is returned when the session would make the tables somewhere else than in schema public.
var ErrSearchPath = errors.New("the first schema of search_path must be public")

// Up brings the schema up to date and applies opt. It may be repeated and run by several at once: one works, the others
// wait for it and find nothing to do. The first Up decides the edition for good, after creating the extension timescaledb
// when the server is ready for it and the user may.
func Up(ctx context.Context, conn *pgx.Conn, opt Options) error {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return err
	}
	unlock, err := lockMigrations(ctx, conn, opt)
	if err != nil {
		return err
	}
	defer unlock()

	server, edition, err := agreeOnEdition(ctx, conn, opt.Log)
	if err != nil {
		return err
	}
	warnOfBrokenReleases(ctx, server, opt.Log)
	if err := migrateTo(ctx, conn, edition, latest, opt.Log); err != nil {
		return err
	}
	if err := applySettings(ctx, conn, edition, opt); err != nil {
		return err
	}
	if err := applyRoles(ctx, conn, opt); err != nil {
		return err
	}
	opt.Log.InfoContext(ctx, "schema is up to date", "edition", edition,
		"postgres", server.PostgresVersion, "timescaledb", server.TimescaleVersion)
	return nil
}

// latest stands for the newest migration there is.
const latest = 0

// migrateTo applies the pending migrations up to version.
func migrateTo(ctx context.Context, conn *pgx.Conn, edition Edition, version int32, log *slog.Logger) error {
	if err := checkSearchPath(ctx, conn); err != nil {
		return err
	}
	m, err := newMigrator(ctx, conn, edition)
	if err != nil {
		return err
	}
	if version == latest {
		version = int32(len(m.Migrations))
	}
	current, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	if current > version {
		return fmt.Errorf("%w: it is at version %d and the program knows %d", ErrNewerSchema, current, version)
	}
	m.OnStart = func(_ int32, name, _, _ string) {
		if strings.HasSuffix(name, unusedSuffix) {
			return
		}
		log.InfoContext(ctx, "migration starts", "name", name)
	}
	if err := m.MigrateTo(ctx, version); err != nil {
		return fmt.Errorf("migrate schema: %w", err)
	}
	return nil
}

// newMigrator returns the migrations as they read for edition. A nil conn is enough to look at them.
func newMigrator(ctx context.Context, conn *pgx.Conn, edition Edition) (*migrate.Migrator, error) {
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", versionTable, err)
	}
	m.Data["Edition"] = string(edition)
	m.Data["Locks"] = advisory.Keys()
	dir, err := fs.Sub(files, "sql")
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	if err := m.LoadMigrations(gapless{dir}); err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	return m, nil
}

const currentSchema = `select coalesce(current_schema(), '')`

func checkSearchPath(ctx context.Context, conn *pgx.Conn) error {
	var schema string
	if err := conn.QueryRow(ctx, currentSchema).Scan(&schema); err != nil {
		return fmt.Errorf("read search_path: %w", err)
	}
	if schema != "public" {
		return fmt.Errorf("%w: it is %q", ErrSearchPath, schema)
	}
	return nil
}
