package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/pgdb"
)

// A message behind another one of its incident is not overdue: it is sent after that one.
const selectAlerting = `
SELECT (SELECT count(*) FROM alert_rules WHERE enabled) AS rules,
  coalesce((SELECT until > clock_timestamp() FROM alert_leader), false) AS led,
  (SELECT clock_timestamp() - min(coalesce(s.checked_at, r.updated_at)) FROM alert_rules r LEFT JOIN alert_status s USING (alert_id)
   WHERE r.enabled) AS checked,
  (SELECT count(*) FROM incidents WHERE ended_at IS NULL) AS firing,
  (SELECT count(*) FROM deliveries WHERE state = 'pending') AS pending,
  (SELECT count(*) FROM deliveries WHERE state = 'failed' AND finished_at > clock_timestamp() - interval '1 day') AS failed,
  (SELECT count(*) FROM deliveries q
   WHERE state = 'pending' AND greatest(next_try_at, claimed_until) < clock_timestamp() - $1::interval AND NOT EXISTS (
     SELECT FROM deliveries p
     WHERE p.incident_id = q.incident_id AND p.channel_id = q.channel_id AND p.state = 'pending' AND p.created_at < q.created_at)) AS overdue`

// How old a check of a rule may be, with events that are as late as rules wait for, and how long a message may be due.
const (
	maxCheckAge = 7 * time.Minute
	maxOverdue  = time.Minute
)

var (
	errNoLeader  = errors.New("no processor checks the alert rules")
	errUnchecked = errors.New("some alert rule has not been checked for more than 7 minutes")
)

// alerting notes whether rules are evaluated and messages are sent.
func (r *checkReport) alerting(ctx context.Context, conn *pgx.Conn) {
	found, err := pgdb.Row[struct {
		// Led is whether some processor holds the lease of alerting now.
		Rules, Firing, Pending, Failed, Overdue int64
		Led                                     bool
		// Checked is the age of the oldest check, nil without rules.
		Checked *time.Duration
	}](ctx, conn, "look at alerting", pgx.ErrNoRows, selectAlerting, maxOverdue)
	if err != nil {
		r.note("alert rules", "", err)
		return
	}
	// Without rules a leader is still needed: thresholds of caps have none.
	age := "no rule is enabled"
	switch {
	case !found.Led:
		err = errNoLeader
	case found.Checked != nil && *found.Checked > maxCheckAge:
		err = errUnchecked
	case found.Checked != nil:
		age = fmt.Sprintf("%d enabled, all checked within %v, %d incidents last", found.Rules, max(0, found.Checked.Round(time.Second)), found.Firing)
	}
	r.note("alert rules", age, err)
	if err = nil; found.Overdue > 0 {
		err = fmt.Errorf("%d are due for more than a minute and nobody tries to send them", found.Overdue)
	}
	r.note("messages", fmt.Sprintf("%d are not delivered yet, %d were given up in the last day", found.Pending, found.Failed), err)
}
