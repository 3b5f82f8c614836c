package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/migrations"
)

// A retention that is null keeps events for ever.
const selectExpired = `
select edition, raw_retention is not null, coalesce($1::timestamptz - raw_retention, 'epoch')
from schema_settings`

// A chunk is dropped when all of it is too old. That takes a lock for a moment and leaves nothing to vacuum.
const dropChunks = `select drop_chunks('events', older_than => $1::timestamptz)`

const deleteEvents = `
delete from events where ctid = any (array(select ctid from events where ts < $1 limit $2 for update skip locked))`

// eventsAtOnce is how many rows one statement deletes at most: a backlog of any size is worked off, and no statement runs into its
// timeout.
const eventsAtOnce = 20_000

// DropExpired drops the events that are past their retention: rows in the plain edition, whole chunks in the others. Their sums
// stay. It returns the number of chunks or rows, also with an error.
func DropExpired(ctx context.Context, conn *pgx.Conn, now time.Time) (dropped int, err error) {
	var edition migrations.Edition
	var expire bool
	var before time.Time
	if err := conn.QueryRow(ctx, selectExpired, now).Scan(&edition, &expire, &before); err != nil {
		return 0, fmt.Errorf("read the retention: %w", err)
	}
	if !expire {
		return 0, nil
	}
	// Chunks are dropped in one statement; rows in as many as it takes.
	statement, args := dropChunks, []any{before}
	if edition == migrations.Plain {
		statement, args = deleteEvents, append(args, eventsAtOnce)
	}
	for {
		tag, err := conn.Exec(ctx, statement, args...)
		if err != nil {
			return dropped, fmt.Errorf("drop events before %v, %d dropped: %w", before, dropped, err)
		}
		dropped += int(tag.RowsAffected())
		if tag.RowsAffected() < eventsAtOnce {
			return dropped, nil
		}
	}
}

// dropExpired is DropExpired as a task.
func (u *Upkeep) dropExpired(ctx context.Context, conn *pgx.Conn) error {
	n, err := DropExpired(ctx, conn, u.now())
	if n > 0 {
		u.log.InfoContext(ctx, "expired events dropped", "dropped", n)
	}
	return err
}
