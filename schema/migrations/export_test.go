package migrations

import (
	"context"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/advisory"
)

// MigrateTo applies the migrations up to version, as an earlier program would have done.
func MigrateTo(ctx context.Context, conn *pgx.Conn, e Edition, version int32) error {
	return migrateTo(ctx, conn, e, version, slog.New(slog.DiscardHandler))
}

// Render returns the SQL of the migrations up to version, as it reads for an edition.
func Render(ctx context.Context, e Edition, version int32) (string, error) {
	m, err := newMigrator(ctx, nil, e)
	if err != nil {
		return "", err
	}
	var sql strings.Builder
	for _, migration := range m.Migrations[:version] {
		sql.WriteString(migration.UpSQL + ";\n\n")
	}
	return sql.String(), nil
}

// SettleWhatWasRead reads the notes of late buckets, calls between, and settles what was read.
func SettleWhatWasRead(ctx context.Context, conn *pgx.Conn, between func()) (int, error) {
	notes, err := readNotes(ctx, conn)
	if err != nil {
		return 0, err
	}
	between()
	return settle(ctx, conn, notes)
}

// RefreshLock is the key of the lock that RefreshLate works under.
const RefreshLock = advisory.RefreshRollups

// MigrateLock is the key of the lock that Up works under.
const MigrateLock = advisory.Migrate
