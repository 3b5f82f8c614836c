package migrations

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/advisory"
)

// MigrateTo applies the migrations up to version.
func MigrateTo(ctx context.Context, conn *pgx.Conn, e Edition, version int32) error {
	return migrateTo(ctx, conn, e, version, slog.New(slog.DiscardHandler))
}

// MigrateLock is the key of the lock that Up works under.
const MigrateLock = advisory.Migrate
