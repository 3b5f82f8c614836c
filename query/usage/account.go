package usage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

const selectAccountName = `
SELECT name FROM accounts WHERE id = $1`

// AccountName returns the name of an account, or ErrNotFound.
func (s *Store) AccountName(ctx context.Context, accountID schema.ID) (name string, err error) {
	err = s.read(ctx, accountID, func(ctx context.Context, tx pgx.Tx) error {
		return notFoundOr(tx.QueryRow(ctx, selectAccountName, accountID).Scan(&name))
	})
	if err != nil {
		return "", fmt.Errorf("find account: %w", err)
	}
	return name, nil
}
