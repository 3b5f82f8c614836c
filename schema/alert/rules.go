package alert

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/advisory"
	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/secret"
)

// ErrNotFound is returned for an id that the account does not have.
var ErrNotFound = errors.New("there is no such rule or delivery")

// ErrTooMany is returned for one rule more than MaxRules.
var ErrTooMany = errors.New("the account has as many rules as it may have")

// Store reads and writes rules, incidents and deliveries. What is written belongs
// into one transaction.
type Store struct {
	db   pgdb.DB
	keys *secret.Keys
}

// NewStore returns a Store on db, which the caller owns.
func NewStore(db pgdb.DB) *Store { return &Store{db: db} }

// Sealing returns a Store that encrypts the secrets of new channels with keys.
func (s *Store) Sealing(keys *secret.Keys) *Store { return &Store{s.db, keys} }

const countRules = `SELECT count(*) FROM alert_rules WHERE account_id = $1`

const insertRule = `
INSERT INTO alert_rules (alert_id, account_id, name, metric, agent, model, provider, window_minutes, condition, threshold,
  sensitivity, cooldown, enabled, created_at, updated_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14, $15)`

// Create makes a rule, which was checked, and fills in its channels' ids and secrets.
// It returns ErrTooMany.
func (s *Store) Create(ctx context.Context, r *Rule) error {
	// Those who create rules of one account wait for each other, so that the count holds.
	if err := advisory.LockAccount(ctx, s.db, advisory.AlertRules, r.AccountID); err != nil {
		return err
	}
	n, err := pgdb.Value[int](ctx, s.db, "count alert rules", countRules, r.AccountID)
	if err != nil {
		return err
	}
	if n >= MaxRules {
		return ErrTooMany
	}
	_, err = s.db.Exec(ctx, insertRule, r.ID, r.AccountID, r.Name, r.Metric, r.Agent, r.Model, r.Provider, r.Window,
		r.Condition, r.Threshold, r.Sensitivity, r.Cooldown, r.Enabled, r.CreatedAt, r.CreatedBy)
	if err != nil {
		return fmt.Errorf("create alert rule: %w", err)
	}
	r.Channels, err = s.SetChannels(ctx, r.AccountID, &r.ID, r.Channels, r.CreatedAt)
	return err
}

const updateRule = `
UPDATE alert_rules SET name = $3, metric = $4, agent = $5, model = $6, provider = $7, window_minutes = $8, condition = $9,
  threshold = $10, sensitivity = $11, cooldown = $12, enabled = $13, updated_at = $14
WHERE account_id = $1 AND alert_id = $2`

// Update writes all of a rule but its channels. It returns ErrNotFound.
func (s *Store) Update(ctx context.Context, r *Rule) error {
	return pgdb.Change(ctx, s.db, "change alert rule", ErrNotFound, updateRule, r.AccountID, r.ID, r.Name, r.Metric, r.Agent, r.Model, r.Provider, r.Window,
		r.Condition, r.Threshold, r.Sensitivity, r.Cooldown, r.Enabled, r.UpdatedAt)
}

const deleteRule = `DELETE FROM alert_rules WHERE account_id = $1 AND alert_id = $2`

// Delete removes a rule with its channels and secrets; its incidents and deliveries
// stay. It returns ErrNotFound.
func (s *Store) Delete(ctx context.Context, accountID, id schema.ID) error {
	return pgdb.Change(ctx, s.db, "remove alert rule", ErrNotFound, deleteRule, accountID, id)
}

const ruleColumns = `
SELECT alert_id, account_id, name, metric, agent, model, provider, window_minutes, condition, threshold, sensitivity,
  cooldown, enabled, created_at, updated_at, created_by
FROM alert_rules`

const selectRule = ruleColumns + ` WHERE account_id = $1 AND alert_id = $2`

// Get returns a rule with its channels. It returns ErrNotFound.
func (s *Store) Get(ctx context.Context, accountID, id schema.ID) (Rule, error) {
	r, err := pgdb.Row[Rule](ctx, s.db, "read alert rule", ErrNotFound, selectRule, accountID, id)
	if err != nil {
		return Rule{}, err
	}
	r.Channels, err = s.Channels(ctx, accountID, &id)
	return r, err
}

const selectRuleForUpdate = selectRule + ` FOR UPDATE`

// Lock is Get for a rule that is about to be changed.
func (s *Store) Lock(ctx context.Context, accountID, id schema.ID) (Rule, error) {
	if _, err := s.db.Exec(ctx, selectRuleForUpdate, accountID, id); err != nil {
		return Rule{}, fmt.Errorf("lock alert rule: %w", err)
	}
	return s.Get(ctx, accountID, id)
}

const selectRules = ruleColumns + ` WHERE account_id = $1 ORDER BY alert_id DESC`

// Rules lists the rules of an account with their channels, newest first.
func (s *Store) Rules(ctx context.Context, accountID schema.ID) ([]Rule, error) {
	rules, err := pgdb.Rows[Rule](ctx, s.db, "list alert rules", selectRules, accountID)
	if err != nil {
		return nil, err
	}
	return rules, s.addChannels(ctx, accountID, rules)
}

const selectEnabledRules = ruleColumns + ` WHERE enabled ORDER BY account_id, alert_id`

// Enabled lists the rules of all accounts that are to be checked, without their
// channels and by account.
func (s *Store) Enabled(ctx context.Context) ([]Rule, error) {
	return pgdb.Rows[Rule](ctx, s.db, "list alert rules", selectEnabledRules)
}

const selectStatuses = `
SELECT alert_id, state, value, checked_at, data_at, fired_at FROM alert_status WHERE account_id = $1`

// Statuses returns how the rules of an account stood when they were last checked.
func (s *Store) Statuses(ctx context.Context, accountID schema.ID) (map[schema.ID]Status, error) {
	rows, _ := s.db.Query(ctx, selectStatuses, accountID)
	found := map[schema.ID]Status{}
	var id schema.ID
	var status Status
	_, err := pgx.ForEachRow(rows, []any{&id, &status.State, &status.Value, &status.CheckedAt, &status.DataAt, &status.FiredAt}, func() error {
		found[id] = status
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read status of alert rules: %w", err)
	}
	return found, nil
}
