package query

import (
	"strings"
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// eventFilters are the parameters that choose events.
func eventFilters(more ...string) []string {
	return append([]string{
		"agent", "model", "provider", "session_id", "user_id", "tag", "status", "min_cost_usd", "q", "from", "to",
	}, more...)
}

func eventFilter(p *rest.Params) usage.EventFilter {
	// Events have times up to five minutes ahead, so a list without "to" ends with the last year that is taken, and not now.
	_, end := usage.AllTime()
	f := usage.EventFilter{
		Agent:    p.Text("agent"),
		Model:    p.Text("model"),
		Provider: p.Text("provider"),
		UserID:   p.Text("user_id"),
		Tags:     p.Tags(),
		MinCost:  minCost(p),
		Text:     p.Text("q"),
	}
	// The span is read before the session, so that faults come in the order of the document.
	f.From, f.To = p.Span(time.UTC, end, rest.SinceEver)
	f.SessionID = session(p)
	if status := p.OneOf("status", "", string(schema.StatusOK), string(schema.StatusError)); status != "" {
		f.Status = &status
	}
	return f
}

// session returns session_id in its canonical form, or nil. Both forms are taken.
func session(p *rest.Params) *string {
	value := schema.NormalName(p.Values.Get("session_id"))
	if value == "" {
		return nil
	}
	p.Faults.CheckName("session_id", strings.TrimPrefix(value, "ses_"), schema.MaxNameLength)
	canonical := schema.SessionID(value)
	return &canonical
}

// minCost returns min_cost_usd in nano-dollars, or nil.
func minCost(p *rest.Params) *int64 {
	value := p.Values.Get("min_cost_usd")
	if value == "" {
		return nil
	}
	nano, err := schema.ParseUSD(value)
	if err != nil {
		p.Faults.Add("min_cost_usd", err.Error())
	}
	n := int64(nano)
	return &n
}

// listEvents answers a page of events, newest first.
func (s *Server) listEvents(c *rest.Request) error {
	p := c.Params(eventFilters("limit", "cursor")...)
	filter, limit := eventFilter(p), p.Limit()
	after := rest.ReadCursor(c, p, (*rest.TimedPosition).Valid)
	if err := p.Err(); err != nil {
		return err
	}
	// One more than asked for tells whether there is another page.
	events, err := s.usage.Events(c.Ctx(), c.Who.AccountID, &filter, after.Place(filter.To), limit+1)
	if err != nil {
		return storeError(err, "event")
	}
	return rest.ReplyPage(c, p, limit, events, func(e *usage.Event) *usage.Event { return e },
		func(e *usage.Event) rest.TimedPosition {
			return rest.NewTimedPosition(e.Timestamp.Time, schema.ID(e.EventID))
		})
}

// event answers one event and how its cost came about.
func (s *Server) event(c *rest.Request, id schema.ID) error {
	event, err := s.usage.Event(c.Ctx(), c.Who.AccountID, id)
	if err != nil {
		return storeError(err, "event")
	}
	return c.Reply(event)
}
