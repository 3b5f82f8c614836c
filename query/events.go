package query

import (
	"time"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// eventFilters are the parameters that choose events.
func eventFilters(more ...string) []string {
	return append([]string{
		"agent", "model", "provider", "session_id", "user_id", "tag", "status", "min_cost_usd", "q", "from", "to",
	}, more...)
}

func (p *params) eventFilter() usage.EventFilter {
	_, end := usage.AllTime()
	f := usage.EventFilter{
		Agent:    p.text("agent"),
		Model:    p.text("model"),
		Provider: p.text("provider"),
		UserID:   p.text("user_id"),
		Tags:     p.tags(),
		MinCost:  p.minCost(),
		Text:     p.text("q"),
	}
	f.From, f.To = p.span(time.UTC, end, sinceEver)
	f.SessionID = p.session()
	if status := p.oneOf("status", "", string(schema.StatusOK), string(schema.StatusError)); status != "" {
		f.Status = &status
	}
	return f
}

// listEvents answers a page of events, newest first.
func (s *Server) listEvents(c *request) error {
	p := c.params(eventFilters("limit", "cursor")...)
	filter, limit := p.eventFilter(), p.limit()
	after := readCursor(c, p, (*timedPosition).valid)
	if err := p.err(); err != nil {
		return err
	}
	events, err := s.usage.Events(c.ctx(), c.who.AccountID, &filter, after.place(filter.To), limit+1)
	if err != nil {
		return storeError(err, "event")
	}
	return replyPage(c, p, limit, events, func(e *usage.Event) *usage.Event { return e },
		func(e *usage.Event) timedPosition { return newTimedPosition(e.Timestamp.Time, schema.ID(e.EventID)) })
}

// event answers one event and how its cost came about.
func (s *Server) event(c *request, id schema.ID) error {
	event, err := s.usage.Event(c.ctx(), c.who.AccountID, id)
	if err != nil {
		return storeError(err, "event")
	}
	return c.reply(event)
}
