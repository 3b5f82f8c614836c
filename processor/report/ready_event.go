package report

import (
	"encoding/json"
	"time"

	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/report"
)

// readyData is the data of report.ready.
type readyData struct {
	ReportID   string         `json:"report_id"`
	ScheduleID *string        `json:"schedule_id"`
	Title      string         `json:"title"`
	From       time.Time      `json:"from"`
	To         time.Time      `json:"to"`
	Timezone   string         `json:"timezone"`
	Agents     []string       `json:"agents"`
	GroupBy    report.GroupBy `json:"group_by"`
	CreatedAt  time.Time      `json:"created_at"`
	// Complete and CompleteUntil are of the figures.
	Complete      bool       `json:"complete"`
	CompleteUntil *time.Time `json:"complete_until"`
	// SizeBytes is that of the PDF.
	SizeBytes int         `json:"size_bytes"`
	Events    int64       `json:"events"`
	CostUSD   json.Number `json:"cost_usd"`
	// Download is the path of the PDF, which a token opens.
	Download string `json:"download"`
	Summary  string `json:"summary"`
}

// readyMessage returns the message that a report is ready. Its cause names the report, so that a channel is notified once.
func readyMessage(r *report.Report, s *Statement, sizeBytes int, now time.Time) *alert.Message {
	// A summary has the figures that decide whether the document is opened.
	id := r.ID.Text(report.Prefix)
	summary := r.Title + ", " + r.Period() + ": " + s.Totals.Cost.dollars() + " spent on " + events(s.Totals.Events) + "."
	if !s.Complete {
		summary += " " + s.incomplete(s.Location())
	}
	data := readyData{
		ReportID: id, Title: r.Title, From: r.From.UTC(), To: r.To.UTC(), Timezone: r.Timezone, Agents: r.Agents, GroupBy: r.GroupBy,
		CreatedAt: r.CreatedAt.UTC(), Complete: s.Complete, CompleteUntil: r.CompleteUntil, SizeBytes: sizeBytes, Events: s.Totals.Events, CostUSD: json.Number(s.Totals.Cost.exact()),
		Download: "/v1/reports/" + id + "/download", Summary: summary,
	}
	if r.ScheduleID != nil {
		schedule := r.ScheduleID.Text(report.SchedulePrefix)
		data.ScheduleID = &schedule
	}
	return &alert.Message{
		Type: alert.ReportReady, Cause: "report " + id, Title: "Report ready: " + r.Title, Summary: summary, Data: data,
		At: now.UTC().Truncate(time.Microsecond),
	}
}

// events writes a number of events.
func events(n int64) string {
	if n == 1 {
		return "1 event"
	}
	return count(n) + " events"
}
