package alert

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
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
	rows, _ := s.db.Query(ctx, selectIncidents, accountID, f.RuleID, f.Scope, f.Open, f.From, f.To, before, id, limit)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Incident])
	if err != nil {
		return nil, fmt.Errorf("list incidents: %w", err)
	}
	return found, nil
}

// Told is how far an incident was reported to a channel.
type Told struct {
	Channel ChannelType
	Address string
	Type    Type
	State   DeliveryState
	At      *time.Time
}

const selectTold = `
SELECT incident_id, channel_type, address, type, state, finished_at FROM deliveries
WHERE account_id = $1 AND incident_id = ANY($2) ORDER BY delivery_id`

// Told returns for incidents what was delivered where.
func (s *Store) Told(ctx context.Context, accountID schema.ID, incidents []Incident) (map[schema.ID][]Told, error) {
	ids := make([]schema.ID, len(incidents))
	for i := range incidents {
		ids[i] = incidents[i].ID
	}
	rows, _ := s.db.Query(ctx, selectTold, accountID, ids)
	found := map[schema.ID][]Told{}
	var id schema.ID
	var t Told
	_, err := pgx.ForEachRow(rows, []any{&id, &t.Channel, &t.Address, &t.Type, &t.State, &t.At}, func() error {
		found[id] = append(found[id], t)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list what was told: %w", err)
	}
	return found, nil
}
