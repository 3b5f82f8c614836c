package timescale

import (
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outlayhq/outlay/schema"
)

// parts is what a batch adds to the list of sessions: one row for each session
// that a client named. They are summed here, because that costs a tenth of what it
// costs the database.
type parts struct {
	sessions map[sessionKey]*sessionPart

	account, session, agents, users     column
	events, errors, input, output, cost column
	started, ended                      column
}

type sessionKey struct {
	account schema.ID
	id      string
}

type sessionPart struct {
	agents, users       []string
	events, errors      int64
	input, output, cost schema.Sum
	started, ended      time.Time
}

// maxNames bounds the agents and users that a session is listed with. The database
// holds to it as well.
const maxNames = 100

func (p *parts) reset() {
	if p.sessions == nil {
		p.sessions = map[sessionKey]*sessionPart{}
	}
	clear(p.sessions)
	for c, elementType := range p.columns() {
		c.reset(elementType)
	}
}

// add adds an event that is stored. A session made for a single event is in no
// list; should the client go on with it, the database finds its start.
func (p *parts) add(e *schema.Event) {
	if e.SessionImplicit {
		return
	}
	key := sessionKey{e.AccountID, e.SessionID}
	s := p.sessions[key]
	if s == nil {
		s = &sessionPart{started: e.Time, ended: e.Time}
		p.sessions[key] = s
	}
	s.add(e)
}

func (s *sessionPart) add(e *schema.Event) {
	s.events++
	if e.Status == schema.StatusError {
		s.errors++
	}
	s.input.Add(e.InputTokens)
	s.output.Add(e.OutputTokens)
	s.cost.Add(int64(e.Cost))
	if e.Time.Before(s.started) {
		s.started = e.Time
	}
	if e.Time.After(s.ended) {
		s.ended = e.Time
	}
	s.agents = withName(s.agents, e.Agent)
	if e.UserID != "" {
		s.users = withName(s.users, e.UserID)
	}
}

func withName(names []string, name string) []string {
	if len(names) >= maxNames || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// finish encodes the sums.
func (p *parts) finish() {
	for key, s := range p.sessions {
		p.account.id(key.account)
		p.session.text(key.id)
		p.agents.text(strings.Join(s.agents, separator))
		p.users.text(strings.Join(s.users, separator))
		p.events.int8(s.events)
		p.errors.int8(s.errors)
		p.input.numeric(s.input)
		p.output.numeric(s.output)
		p.cost.numeric(s.cost)
		p.started.time(s.started)
		p.ended.time(s.ended)
	}
}

// columns are parameters of saveBatch with their element types.
func (p *parts) columns() func(yield func(*column, uint32) bool) {
	return func(yield func(*column, uint32) bool) {
		_ = yield(&p.account, pgtype.UUIDOID) &&
			yield(&p.session, pgtype.TextOID) &&
			yield(&p.agents, pgtype.TextOID) &&
			yield(&p.users, pgtype.TextOID) &&
			yield(&p.events, pgtype.Int8OID) &&
			yield(&p.errors, pgtype.Int8OID) &&
			yield(&p.input, pgtype.NumericOID) &&
			yield(&p.output, pgtype.NumericOID) &&
			yield(&p.cost, pgtype.NumericOID) &&
			yield(&p.started, pgtype.TimestamptzOID) &&
			yield(&p.ended, pgtype.TimestamptzOID)
	}
}
