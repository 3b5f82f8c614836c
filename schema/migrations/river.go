package migrations

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// RiverSchema holds the tables of the job queue River, which brings migrations of its own. They are not ours to write, so they
// are in a schema apart; no role but the owner's may use it.
const RiverSchema = "river"

const createRiverSchema = `create schema if not exists ` + RiverSchema

// migrateRiver brings River's tables to what the library in this program needs. Each step is a transaction, because some use what
// the one before has added to a type; what was interrupted goes on from there.
func migrateRiver(ctx context.Context, conn *pgx.Conn, log *slog.Logger) error {
	migrator, err := newRiverMigrator()
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, createRiverSchema); err != nil {
		return fmt.Errorf("make schema %s: %w", RiverSchema, err)
	}
	for applied := true; applied; {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			//nolint:staticcheck // It is deprecated because several steps in one transaction fail; here each has its own.
			result, err := migrator.MigrateTx(ctx, tx, rivermigrate.DirectionUp, &rivermigrate.MigrateOpts{MaxSteps: 1})
			if err != nil {
				return err
			}
			applied = len(result.Versions) > 0
			for _, v := range result.Versions {
				log.InfoContext(ctx, "job queue migrated", "version", v.Version, "name", v.Name)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("migrate the job queue: %w", err)
		}
	}
	return nil
}

func newRiverMigrator() (*rivermigrate.Migrator[pgx.Tx], error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(nil), &rivermigrate.Config{
		Schema: RiverSchema, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the job queue's migrations: %w", err)
	}
	return migrator, nil
}

const hasRiver = `select to_regclass('` + RiverSchema + `.river_migration') is not null`

const selectRiverVersion = `select coalesce(max(version), 0) from ` + RiverSchema + `.river_migration where line = 'main'`

// pendingRiver names the migrations of the job queue that Up would apply.
func pendingRiver(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	migrator, err := newRiverMigrator()
	if err != nil {
		return nil, err
	}
	var made bool
	if err := conn.QueryRow(ctx, hasRiver).Scan(&made); err != nil {
		return nil, fmt.Errorf("look for the job queue: %w", err)
	}
	var version int
	if made {
		if err := conn.QueryRow(ctx, selectRiverVersion).Scan(&version); err != nil {
			return nil, fmt.Errorf("read the job queue's version: %w", err)
		}
	}
	var pending []string
	for _, m := range migrator.AllVersions() {
		if m.Version > version {
			pending = append(pending, fmt.Sprintf("river %03d %s", m.Version, m.Name))
		}
	}
	return pending, nil
}
