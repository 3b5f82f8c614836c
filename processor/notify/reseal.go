package notify

import (
	"context"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// storedSecret is the secret of a channel that the first key has not sealed.
type storedSecret struct {
	ChannelID schema.ID
	Secret    string
}

// $1 is what every secret begins with that the first key has sealed.
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
	stored, err := pgdb.Rows[storedSecret](ctx, n.outbox.pool, "look for secrets to encrypt", selectOtherwiseSealed, n.secrets.Prefix())
	if err != nil {
		return err
	}
	// One secret that cannot be opened does not keep the others from being encrypted.
	done, unopened := 0, 0
	for _, s := range stored {
		place := alert.SecretPlace(s.ChannelID)
		plain, err := n.secrets.Open(s.Secret, place)
		if err != nil {
			unopened++
			continue
		}
		err = pgdb.Exec(ctx, n.outbox.pool, "encrypt a secret", updateSecret, s.ChannelID, s.Secret, n.secrets.Seal(plain, place))
		if err != nil {
			return err
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
