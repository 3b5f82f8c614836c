package notify

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
)

// storedSecret is the secret of a channel that the first key has not sealed.
type storedSecret struct {
	ChannelID schema.ID
	Secret    string
}

const selectOtherwiseSealed = `
SELECT channel_id, secret FROM alert_secrets WHERE left(secret, length($1)) <> $1`

// A channel that was changed meanwhile keeps its new secret.
const updateSecret = `
UPDATE alert_secrets SET secret = $3 WHERE channel_id = $1 AND secret = $2`

// reseal encrypts with the first key what was kept before there was a key, or with an
// older one, so that a key can be exchanged: new key first, then, when nothing is left of
// the older one, without it.
func (n *Notifier) reseal(ctx context.Context) error {
	if !n.secrets.Encrypts() {
		return nil
	}
	rows, _ := n.outbox.pool.Query(ctx, selectOtherwiseSealed, n.secrets.Prefix())
	stored, err := pgx.CollectRows(rows, pgx.RowToStructByName[storedSecret])
	if err != nil {
		return fmt.Errorf("look for secrets to encrypt: %w", err)
	}
	done, unopened := 0, 0
	for _, s := range stored {
		place := alert.SecretPlace(s.ChannelID)
		plain, err := n.secrets.Open(s.Secret, place)
		if err != nil {
			unopened++
			continue
		}
		if _, err := n.outbox.pool.Exec(ctx, updateSecret, s.ChannelID, s.Secret, n.secrets.Seal(plain, place)); err != nil {
			return fmt.Errorf("encrypt a secret: %w", err)
		}
		done++
	}
	if done > 0 {
		n.log.InfoContext(ctx, "secrets encrypted with the first key of the file", "secrets", done)
	}
	if unopened > 0 {
		n.log.ErrorContext(ctx, "secrets of channels cannot be opened: --secrets-key-file lacks the key that they were encrypted with", "secrets", unopened)
	}
	return nil
}
