package usage

import (
	"context"
	"fmt"

	"github.com/outlayhq/outlay/schema"
)

const selectAccountName = `
SELECT name FROM accounts WHERE id = $1`

// AccountName returns the name of an account, or ErrNotFound.
func (s *Store) AccountName(ctx context.Context, accountID schema.ID) (name string, err error) {
	if err := notFoundOr(s.Once(accountID).QueryRow(ctx, selectAccountName, accountID).Scan(&name)); err != nil {
		return "", fmt.Errorf("find account: %w", err)
	}
	return name, nil
}
