package query

import (
	"context"
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
)

// toldReply is how far an incident was reported to a channel.
type toldReply struct {
	Type        alert.ChannelType   `json:"type"`
	Address     string              `json:"address"`
	Message     alert.Type          `json:"message"`
	State       alert.DeliveryState `json:"state"`
	DeliveredAt usage.Time          `json:"delivered_at"`
}

// incidentReply is a time in which a rule, or a threshold of a cap, was crossed.
type incidentReply struct {
	ID string `json:"id"`
	// Kind is alert for a rule and budget for a cap.
	Kind alert.Kind `json:"kind"`
	// AlertID is null for caps.
	AlertID *string      `json:"alert_id"`
	Name    string       `json:"name"`
	Metric  alert.Metric `json:"metric"`
	// Agent is null where all agents, or the cap of the account, were looked at as one.
	Agent *string `json:"agent"`
	// State is firing until EndedAt is set, then resolved.
	State     string     `json:"state"`
	StartedAt usage.Time `json:"started_at"`
	EndedAt   usage.Time `json:"ended_at"`
	// Value is what began it, Peak what was furthest off, in the unit of Metric; error_rate and budget_used are shares.
	Value   any        `json:"value"`
	Peak    any        `json:"peak"`
	PeakAt  usage.Time `json:"peak_at"`
	Summary string     `json:"summary"`
	// Deliveries has the state of each channel; every try is at /v1/alerts/{id}/deliveries.
	Deliveries []toldReply `json:"deliveries"`
}

func newIncidentReply(i *alert.Incident, told []alert.Notification) incidentReply {
	reply := incidentReply{
		ID: i.ID.Text(alert.IncidentPrefix), Kind: i.Kind, Name: i.Name, Metric: i.Metric, Agent: nonEmpty(i.Scope),
		State: "firing", StartedAt: usage.Time{Time: i.StartedAt}, EndedAt: timeOf(i.EndedAt),
		Value: i.Metric.Shown(i.Value), Peak: i.Metric.Shown(i.Peak), PeakAt: usage.Time{Time: i.PeakAt},
		Summary: i.Summary, Deliveries: make([]toldReply, len(told)),
	}
	if i.EndedAt != nil {
		reply.State = "resolved"
	}
	reply.AlertID = idText(i.AlertID, alert.RulePrefix)
	for n, t := range told {
		reply.Deliveries[n] = toldReply{Type: t.Channel, Address: t.Address, Message: t.Type, State: t.State}
		// A message that was given up has an end as well, which is no delivery.
		if t.State == alert.Delivered {
			reply.Deliveries[n].DeliveredAt = timeOf(t.At)
		}
	}
	return reply
}

// incidentFilter reads the parameters that choose incidents.
func incidentFilter(p *rest.Params) alert.IncidentFilter {
	_, end := usage.AllTime()
	f := alert.IncidentFilter{Scope: p.Text("agent")}
	f.From, f.To = p.Span(time.UTC, end, rest.SinceEver)
	if text := p.Values.Get("alert_id"); text != "" {
		id, err := schema.ParseID(alert.RulePrefix, text)
		if err != nil {
			p.Faults.Add("alert_id", "must be the id of an alert rule, alr_…")
		}
		// An id that cannot be leaves the zero id here, which the fault below keeps from being asked for.
		f.RuleID = &id
	}
	if state := p.OneOf("state", "", "firing", "resolved"); state != "" {
		// Without the parameter both are listed.
		open := state == "firing"
		f.Open = &open
	}
	return f
}

// listIncidents answers a page of incidents, newest first, with what was delivered
// where.
func (s *Server) listIncidents(c *rest.Request) error {
	p := c.Params("alert_id", "agent", "state", "from", "to", "limit", "cursor")
	filter, limit := incidentFilter(p), p.Limit()
	after := rest.ReadCursor(c, p, (*rest.TimedPosition).Valid)
	if err := p.Err(); err != nil {
		return err
	}
	at := after.Place(filter.To)
	var incidents []alert.Incident
	var told map[schema.ID][]alert.Notification
	err := s.alerting(c, func(ctx context.Context, store *alert.Store) (err error) {
		if incidents, err = store.Incidents(ctx, c.Who.AccountID, filter, at.Time, at.ID, limit+1); err != nil {
			return err
		}
		// One statement for all incidents of the page.
		told, err = store.Notifications(ctx, c.Who.AccountID, incidents)
		return err
	})
	if err != nil {
		return alertError(err)
	}
	return rest.ReplyPage(c, p, limit, incidents,
		func(i *alert.Incident) incidentReply { return newIncidentReply(i, told[i.ID]) },
		func(i *alert.Incident) rest.TimedPosition { return rest.NewTimedPosition(i.StartedAt, i.ID) })
}
