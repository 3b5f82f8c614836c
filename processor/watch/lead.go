package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

// leadFor is how long a leader leads without saying that it is alive: as long may
// checks rest when it dies.
const leadFor = 15 * time.Second

// errNotLeading means that another processor checks the rules now.
var errNotLeading = errors.New("another processor leads")

// lead is the right to change what the checks found. One process at a time has it.
type lead struct {
	pool   *pgxpool.Pool
	holder schema.ID
}

const takeLead = `
UPDATE alert_leader SET holder = $1, until = clock_timestamp() + $2::interval
WHERE holder = $1 OR until < clock_timestamp()`

// take begins or prolongs the lead. It returns errNotLeading while another has it.
func (l *lead) take(ctx context.Context) error {
	tag, err := l.pool.Exec(ctx, takeLead, l.holder, leadFor)
	if err != nil {
		return fmt.Errorf("take the lead: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errNotLeading
	}
	return nil
}

const dropLead = `UPDATE alert_leader SET until = '-infinity' WHERE holder = $1`

// drop lets another process begin at once.
func (l *lead) drop(ctx context.Context) error {
	if _, err := l.pool.Exec(ctx, dropLead, l.holder); err != nil {
		return fmt.Errorf("drop the lead: %w", err)
	}
	return nil
}

const holdLead = `SELECT true FROM alert_leader WHERE holder = $1 AND until > clock_timestamp() FOR SHARE`

// within runs f in a transaction during which nobody else can take the lead. A leader
// that was paused past its time changes nothing: it gets errNotLeading.
func (l *lead) within(ctx context.Context, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		var leading bool
		err := tx.QueryRow(ctx, holdLead, l.holder).Scan(&leading)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNotLeading
		}
		if err != nil {
			return fmt.Errorf("hold the lead: %w", err)
		}
		return f(tx)
	})
}
