package alert

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// IncidentFilter chooses incidents; what is nil is not asked for.
type IncidentFilter struct {
	RuleID *schema.ID
	Scope  *string
	// Open is true for those that last, false for those that ended.
	Open     *bool
	From, To time.Time
}

const incidentColumns = `
SELECT incident_id, account_id, kind, alert_id, name, metric, scope, started_at, ended_at, value, peak, peak_at, summary
FROM incidents`

const selectIncidents = incidentColumns + `
WHERE account_id = $1 AND ($2::uuid IS NULL OR alert_id = $2) AND ($3::text IS NULL OR scope = $3)
  AND ($4::boolean IS NULL OR (ended_at IS NULL) = $4) AND started_at >= $5 AND started_at < $6
  AND (started_at, incident_id) < ($7, $8)
ORDER BY started_at DESC, incident_id DESC LIMIT $9`

// Incidents lists up to limit incidents, newest first, beginning behind a position.
func (s *Store) Incidents(ctx context.Context, accountID schema.ID, f IncidentFilter, before time.Time, id schema.ID, limit int) ([]Incident, error) {
	return pgdb.Rows[Incident](ctx, s.db, "list incidents", selectIncidents, accountID, f.RuleID, f.Scope, f.Open, f.From, f.To, before, id, limit)
}

// Notification is how far a message about an incident has got to a channel.
type Notification struct {
	Channel ChannelType
	Address string
	Type    Type
	State   DeliveryState
	At      *time.Time
}

const selectNotifications = `
SELECT incident_id, channel_type, address, type, state, finished_at FROM deliveries
WHERE account_id = $1 AND incident_id = ANY($2) ORDER BY delivery_id`

// Notifications returns which channels were notified of incidents.
func (s *Store) Notifications(ctx context.Context, accountID schema.ID, incidents []Incident) (map[schema.ID][]Notification, error) {
	ids := make([]schema.ID, len(incidents))
	for i := range incidents {
		ids[i] = incidents[i].ID
	}
	rows, _ := s.db.Query(ctx, selectNotifications, accountID, ids)
	found := map[schema.ID][]Notification{}
	var id schema.ID
	var n Notification
	_, err := pgx.ForEachRow(rows, []any{&id, &n.Channel, &n.Address, &n.Type, &n.State, &n.At}, func() error {
		found[id] = append(found[id], n)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list notifications: %w", err)
	}
	return found, nil
}
