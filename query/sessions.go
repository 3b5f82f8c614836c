package query

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// sessionReply is a session in the list.
type sessionReply struct {
	// ID starts with ses_. An implicit one was made for a single event without session_id.
	ID       string `json:"id"`
	Implicit bool   `json:"implicit"`
	// Agents took part in the session, in the order of the alphabet.
	Agents []string `json:"agents"`
	Events int64    `json:"events"`
	Errors int64    `json:"errors"`
	// InputTokens and OutputTokens may exceed an int64: JSON shows all their digits.
	InputTokens  usage.Sum `json:"input_tokens"`
	OutputTokens usage.Sum `json:"output_tokens"`
	CostUSD      usage.USD `json:"cost_usd"`
	// StartedAt and EndedAt are the times of the first and the last event.
	StartedAt  usage.Time `json:"started_at"`
	EndedAt    usage.Time `json:"ended_at"`
	DurationMS int64      `json:"duration_ms"`
}

// newSessionReply leaves out what belongs to the steps.
func newSessionReply(s *usage.Session) sessionReply {
	return sessionReply{
		ID:           s.ID,
		Implicit:     s.Implicit,
		Agents:       s.Agents,
		Events:       s.Events,
		Errors:       s.Errors,
		InputTokens:  s.InputTokens,
		OutputTokens: s.OutputTokens,
		CostUSD:      s.CostUSD,
		StartedAt:    s.StartedAt,
		EndedAt:      s.EndedAt,
		DurationMS:   s.Duration().Milliseconds(),
	}
}

// sessionPosition is the last session of a page.
type sessionPosition struct {
	// SortKey is the sorted value in decimal digits: nano-dollars, a count, milliseconds or microseconds.
	SortKey string `json:"k"`
	ID      string `json:"s"`
}

// valid checks the key as what it is in this order; times are bounded, since the statement makes timestamps of them.
func (p *sessionPosition) valid(order usage.SessionOrder) bool {
	if order == usage.SessionsByStart {
		micros, err := strconv.ParseInt(p.SortKey, 10, 64)
		if err != nil || !rest.InAllTime(time.UnixMicro(micros)) {
			return false
		}
	}
	return wholeNumber(p.SortKey) && schema.TextFault(p.ID, maxSessionLength) == ""
}

// maxSessionLength is the length of a session id with its prefix.
const maxSessionLength = len("ses_") + schema.MaxNameLength

// listSessions answers a page of sessions, the one that started last first.
func (s *Server) listSessions(c *rest.Request) error {
	p := c.Params("agent", "user_id", "from", "to", "q", "sort", "order", "include_implicit", "limit", "cursor")
	_, end := usage.AllTime()
	limit := p.Limit()
	q := usage.SessionQuery{
		Agent: p.Text("agent"), UserID: p.Text("user_id"), Text: p.Text("q"),
		Implicit: p.Flag("include_implicit", false), Descending: p.Descending(true), Limit: limit + 1,
		Order: usage.SessionOrder(p.OneOf("sort", string(usage.SessionsByStart), string(usage.SessionsByStart),
			string(usage.SessionsByEnd), string(usage.SessionsByCost), string(usage.SessionsByEvents), string(usage.SessionsByDuration))),
	}
	// A session belongs to the range when it overlaps it.
	q.From, q.To = p.Span(time.UTC, end, rest.SinceEver)
	if after := rest.ReadCursor(c, p, func(at *sessionPosition) bool { return at.valid(q.Order) }); after != nil {
		q.After = &usage.SessionPosition{SortKey: after.SortKey, ID: after.ID}
	}
	if err := p.Err(); err != nil {
		return err
	}
	// Implicit sessions have one event each and would fill the list, so they are left out unless asked for.
	sessions, err := s.usage.Sessions(c.Ctx(), c.Who.AccountID, &q)
	if err != nil {
		return storeError(err, "session")
	}
	return rest.ReplyPage(c, p, limit, sessions, func(x *usage.ListedSession) sessionReply { return newSessionReply(&x.Session) },
		func(x *usage.ListedSession) sessionPosition { return sessionPosition{x.SortKey.String(), x.ID} })
}

// stepPosition is the last step of a page.
type stepPosition struct {
	// Micros, Partition and Offset are the order of steps: by time, and at the same time as Kafka had them.
	Micros    int64 `json:"t"`
	Partition int32 `json:"p"`
	Offset    int64 `json:"o"`
}

func (p *stepPosition) valid() bool { return rest.InAllTime(time.UnixMicro(p.Micros)) }

// place returns the position as the store takes it, nil for the first page.
func (p *stepPosition) place() *usage.StepPosition {
	if p == nil {
		return nil
	}
	return &usage.StepPosition{Time: time.UnixMicro(p.Micros), Partition: p.Partition, Offset: p.Offset}
}

// timelineReply is a session with a page of its steps, whose fields the reader may see.
type timelineReply[S any] struct {
	sessionReply
	Steps      []S     `json:"steps"`
	NextCursor *string `json:"next_cursor"`
}

// session answers one session with a page of its steps.
func (s *Server) session(c *rest.Request) error {
	p := c.Params("limit", "cursor")
	limit, after := p.Limit(), rest.ReadCursor(c, p, (*stepPosition).valid)
	if err := p.Err(); err != nil {
		return err
	}
	id, err := sessionParam(c)
	if err != nil {
		return err
	}
	// The store returns one page of steps, and the sums of all of them.
	timeline, err := s.usage.Session(c.Ctx(), c.Who.AccountID, id, after.place(), limit)
	if err != nil {
		return storeError(err, "session")
	}
	next, err := stepCursor(c, p, timeline.Next)
	if err != nil {
		return err
	}
	// Steps is an empty list and not null behind the last one.
	return c.Reply(timelineReply[usage.Step]{newSessionReply(&timeline.Session), append([]usage.Step{}, timeline.Steps...), next})
}

// sessionParam returns the session that the address names, in its canonical form.
// Both forms are taken.
func sessionParam(c *rest.Request) (string, error) {
	id := schema.SessionID(schema.NormalName(c.Param("id")))
	// An id that tracking would refuse is nobody's.
	if schema.NameFault(id, maxSessionLength) != "" {
		return "", storeError(usage.ErrNotFound, "session")
	}
	return id, nil
}

// stepCursor returns the cursor of the next steps, nil behind the last one.
func stepCursor(c *rest.Request, p *rest.Params, next *usage.StepPosition) (*string, error) {
	if next == nil {
		return nil, nil
	}
	return rest.WriteCursor(c, p, stepPosition{next.Time.UnixMicro(), next.Partition, next.Offset})
}

// sharedStep is a step as a stranger may see it: what was called and what it cost,
// not whom it was for.
type sharedStep struct {
	EventID           string          `json:"event_id"`
	ParentEventID     *string         `json:"parent_event_id"`
	Index             int64           `json:"index"`
	OffsetMS          int64           `json:"offset_ms"`
	Timestamp         usage.Time      `json:"timestamp"`
	Step              *string         `json:"step"`
	Agent             string          `json:"agent"`
	Model             *string         `json:"model"`
	Provider          *string         `json:"provider"`
	Status            string          `json:"status"`
	ErrorType         *string         `json:"error_type"`
	InputTokens       int64           `json:"input_tokens"`
	OutputTokens      int64           `json:"output_tokens"`
	LatencyMS         *int64          `json:"latency_ms"`
	CostUSD           schema.NanoUSD  `json:"cost_usd"`
	CostSource        string          `json:"cost_source"`
	CumulativeCostUSD usage.USD       `json:"cumulative_cost_usd"`
	Metadata          json.RawMessage `json:"metadata"`
}

// newSharedStep leaves out the user, the tags and the idempotency key, and metadata unless the link shows it.
func newSharedStep(step *usage.Step, metadata bool) sharedStep {
	shown := sharedStep{
		EventID:           step.EventID.String(),
		Index:             step.Index,
		OffsetMS:          step.OffsetMS,
		Timestamp:         step.Timestamp,
		Step:              step.Step,
		Agent:             step.Agent,
		Model:             step.Model,
		Provider:          step.Provider,
		Status:            step.Status,
		ErrorType:         step.ErrorType,
		InputTokens:       step.InputTokens,
		OutputTokens:      step.OutputTokens,
		LatencyMS:         step.LatencyMS,
		CostUSD:           step.CostUSD,
		CostSource:        step.CostSource,
		CumulativeCostUSD: step.CumulativeCostUSD,
	}
	// The id of the parent is shown even when it is on another page: it links steps and tells nothing else.
	if step.ParentEventID != nil {
		parent := step.ParentEventID.String()
		shown.ParentEventID = &parent
	}
	// Metadata may hold prompts, so only the maker of the link shows them.
	if metadata {
		shown.Metadata = step.Metadata
	}
	return shown
}
