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

// eventPosition is the last event of a page.
type eventPosition struct {
	Micros int64  `json:"t"`
	ID     string `json:"e"`
}

func (p *eventPosition) parse() (usage.Position, bool) {
	first, end := usage.AllTime()
	id, err := schema.ParseID(schema.EventPrefix, p.ID)
	t := time.UnixMicro(p.Micros)
	return usage.Position{Time: t, ID: id}, err == nil && !t.Before(first) && t.Before(end)
}

// listEvents answers a page of events, newest first.
func (s *Server) listEvents(c *request) error {
	p := c.params(eventFilters("limit", "cursor")...)
	filter, limit := p.eventFilter(), p.limit()
	position := usage.Position{Time: filter.To}
	after := readCursor(c, p, func(at *eventPosition) bool { _, ok := at.parse(); return ok })
	if err := p.err(); err != nil {
		return err
	}
	if after != nil {
		position, _ = after.parse()
	}
	// One more than asked for says whether there is another page.
	events, err := s.usage.Events(c.ctx(), c.who.AccountID, &filter, position, limit+1)
	if err != nil {
		return storeError(err, "event")
	}
	var next nextPage
	if len(events) > limit {
		events = events[:limit]
		last := &events[limit-1]
		next.NextCursor, err = writeCursor(c, p, eventPosition{last.Timestamp.UnixMicro(), last.EventID.String()})
		if err != nil {
			return err
		}
	}
	return replyWithList(c, nil, "data", events, eventSize, appendEvent, next)
}

// event answers one event and how its cost came about.
func (s *Server) event(c *request) error {
	if err := c.params().err(); err != nil {
		return err
	}
	id, err := schema.ParseID(schema.EventPrefix, c.Param("id"))
	if err != nil {
		return storeError(usage.ErrNotFound, "event")
	}
	event, err := s.usage.Event(c.ctx(), c.who.AccountID, id)
	if err != nil {
		return storeError(err, "event")
	}
	return c.reply(event)
}
