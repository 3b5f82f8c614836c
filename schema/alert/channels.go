package alert

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

const selectChannels = `
SELECT channel_id, type, address FROM alert_channels
WHERE account_id = $1 AND alert_id IS NOT DISTINCT FROM $2 ORDER BY position`

// Channels lists the channels of a rule, or of the account itself for nil.
func (s *Store) Channels(ctx context.Context, accountID schema.ID, rule *schema.ID) ([]Channel, error) {
	return pgdb.Rows[Channel](ctx, s.db, "list channels", selectChannels, accountID, rule)
}

const selectAllChannels = `
SELECT alert_id, channel_id, type, address FROM alert_channels
WHERE account_id = $1 AND alert_id IS NOT NULL ORDER BY position`

// addChannels gives rules of one account their channels.
func (s *Store) addChannels(ctx context.Context, accountID schema.ID, rules []Rule) error {
	rows, _ := s.db.Query(ctx, selectAllChannels, accountID)
	of := map[schema.ID][]Channel{}
	var rule schema.ID
	var c Channel
	_, err := pgx.ForEachRow(rows, []any{&rule, &c.ID, &c.Type, &c.Address}, func() error {
		of[rule] = append(of[rule], c)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list channels: %w", err)
	}
	for i := range rules {
		rules[i].Channels = of[rules[i].ID]
	}
	return nil
}

const deleteChannels = `
DELETE FROM alert_channels WHERE account_id = $1 AND alert_id IS NOT DISTINCT FROM $2 AND channel_id <> ALL($3)`

const moveChannel = `UPDATE alert_channels SET position = $3 WHERE account_id = $1 AND channel_id = $2`

// ErrHiddenAddress is returned for the address of a Slack channel as it is shown where
// there is no such channel: the whole address is needed.
var ErrHiddenAddress = errors.New("the address of a new Slack channel is not whole")

// SetChannels makes channels those of a rule, or of the account itself for nil, and
// returns them. One that was there before, by type and address as it is shown, keeps
// its id and secret; a new webhook is returned with its secret, which cannot be read
// again.
func (s *Store) SetChannels(ctx context.Context, accountID schema.ID, rule *schema.ID, channels []Channel, now time.Time) ([]Channel, error) {
	before, err := s.Channels(ctx, accountID, rule)
	if err != nil {
		return nil, err
	}
	set, kept := make([]Channel, len(channels)), []schema.ID{}
	for i, c := range channels {
		set[i] = c
		switch old := find(before, c); {
		case old != nil:
			set[i] = *old
			kept = append(kept, old.ID)
		case c.Type == Slack && strings.Contains(c.Address, hidden):
			return nil, ErrHiddenAddress
		}
	}
	if _, err := s.db.Exec(ctx, deleteChannels, accountID, rule, kept); err != nil {
		return nil, fmt.Errorf("remove channels: %w", err)
	}
	for i := range set {
		if !set[i].ID.IsZero() {
			_, err = s.db.Exec(ctx, moveChannel, accountID, set[i].ID, i)
		} else {
			err = s.insertChannel(ctx, accountID, rule, &set[i], i, now)
		}
		if err != nil {
			return nil, fmt.Errorf("set channel: %w", err)
		}
	}
	return set, nil
}

// find returns the channel that c is, or nil. That of Slack may come back as it was
// shown.
func find(channels []Channel, c Channel) *Channel {
	for i := range channels {
		if old := &channels[i]; old.Type == c.Type && (old.Address == c.Address || old.Address == c.Shown()) {
			return old
		}
	}
	return nil
}

const insertChannel = `
INSERT INTO alert_channels (channel_id, account_id, alert_id, position, type, address, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)`

const insertSecret = `INSERT INTO alert_secrets (channel_id, account_id, secret) VALUES ($1, $2, $3)`

// insertChannel leaves in c what may be shown to whoever made it.
func (s *Store) insertChannel(ctx context.Context, accountID schema.ID, rule *schema.ID, c *Channel, position int, now time.Time) error {
	c.ID = schema.NewID(now)
	secret := ""
	switch c.Type {
	case Webhook:
		c.Secret = newSecret()
		secret = c.Secret
	case Slack:
		secret, c.Address = c.Address, c.Shown()
	case Email:
	}
	if _, err := s.db.Exec(ctx, insertChannel, c.ID, accountID, rule, position, c.Type, c.Address, now); err != nil {
		return err
	}
	if secret == "" {
		return nil
	}
	_, err := s.db.Exec(ctx, insertSecret, c.ID, accountID, s.keys.Seal(secret, SecretPlace(c.ID)))
	return err
}

// SecretPlace is where the secret of a channel is sealed for.
func SecretPlace(channelID schema.ID) string { return "alert channel " + channelID.Text("chn") }
