package alert

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// Type says what a message is about.
type Type string

// The types of messages.
const (
	AlertFiring     Type = "alert.firing"
	AlertResolved   Type = "alert.resolved"
	BudgetThreshold Type = "budget.threshold"
	BudgetExceeded  Type = "budget.exceeded"
	ReportReady     Type = "report.ready"
)

// Message is something to report. Title and Summary are for people, Data for programs.
type Message struct {
	Type Type
	// Cause names what it is about: a channel is notified once of each.
	Cause string
	// Title is a few words, Summary a sentence, in plain text.
	Title, Summary string
	// Data becomes the data of a webhook: a value that is an object in JSON.
	Data any
	// RuleID and IncidentID are nil when it is about neither.
	RuleID, IncidentID *schema.ID
	At                 time.Time
}

// payload returns the message as a webhook gets it, in the form that Standard Webhooks
// recommends.
func (m *Message) payload() (string, error) {
	text, err := json.Marshal(struct {
		Type      Type   `json:"type"`
		Timestamp string `json:"timestamp"`
		Data      any    `json:"data"`
	}{m.Type, m.At.UTC().Format(time.RFC3339Nano), m.Data})
	if err != nil {
		return "", fmt.Errorf("write message %s: %w", m.Type, err)
	}
	return string(text), nil
}

// Test is the message that shows that a rule's channels work.
func Test(r *Rule, now time.Time) *Message {
	id := schema.NewID(now).Text(DeliveryPrefix)
	return &Message{
		Type: AlertFiring, Cause: "test " + id, RuleID: &r.ID, At: now,
		Title:   "Test of alert: " + r.Name,
		Summary: "This is a test. Nothing has happened.",
		Data: map[string]any{
			"test": true, "alert_id": r.ID.Text(RulePrefix), "name": r.Name, "metric": r.Metric,
			"state": Firing, "summary": "This is a test. Nothing has happened.",
		},
	}
}
