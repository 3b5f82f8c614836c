package migrations

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

// The setting exists only where the server has loaded TimescaleDB at its start, without which the extension is refused.
const extensionReady = `
select current_setting('timescaledb.disable_load', true) is not null
   and exists (select from pg_available_extensions where name = 'timescaledb' and installed_version is null)`

const makeExtension = `create extension if not exists timescaledb`

// createExtension adds TimescaleDB to a database that is about to get its schema, where the server is ready for it. A user
// who may not is told so, and gets the plain edition.
func createExtension(ctx context.Context, conn *pgx.Conn, log *slog.Logger) error {
	var ready bool
	if err := conn.QueryRow(ctx, extensionReady).Scan(&ready); err != nil {
		return fmt.Errorf("look for timescaledb: %w", err)
	}
	if !ready {
		return nil
	}
	_, err := conn.Exec(ctx, makeExtension)
	if hasCode(err, insufficientPrivilege) {
		log.WarnContext(ctx, "timescaledb is there but this user may not create it, so the schema will be plain for good",
			"instead", "create extension timescaledb as a user who may, before the first migration", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("create extension timescaledb: %w", err)
	}
	return nil
}
