package timescale

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// sessionKey is a session that a client named.
type sessionKey struct {
	account schema.ID
	id      string
}

func (k sessionKey) compare(other sessionKey) int {
	return cmp.Or(compareIDs(k.account, other.account), cmp.Compare(k.id, other.id))
}

// sessionDelta is what a batch adds to a session. It is summed here, because that
// costs a tenth of what it costs the database.
type sessionDelta struct {
	// agents and users have at most maxNames names each, in the order of the events.
	agents, users       []string
	events, errors      int64
	input, output, cost schema.Sum
	started, ended      time.Time
}

// maxNames bounds the agents and users that a session is listed with. The database
// holds to it as well.
const maxNames = 100

// add adds an event. Events come in the order of their offsets, which need not be that of their times.
func (s *sessionDelta) add(e *schema.Event) {
	s.events++
	if e.Status == schema.StatusError {
		s.errors++
	}
	s.input.Add(e.InputTokens)
	s.output.Add(e.OutputTokens)
	s.cost.Add(int64(e.Cost))
	if s.events == 1 || e.Time.Before(s.started) {
		s.started = e.Time
	}
	if s.events == 1 || e.Time.After(s.ended) {
		s.ended = e.Time
	}
	s.agents = withName(s.agents, e.Agent)
	if e.UserID != "" {
		s.users = withName(s.users, e.UserID)
	}
}

// withName adds a name that is not there yet, while there is room for it.
func withName(names []string, name string) []string {
	if len(names) >= maxNames || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

type sessionRow = entry[sessionKey, sessionDelta]

// newSessionDeltas returns the columns of table session_parts.
func newSessionDeltas() *group[sessionRow] {
	return newGroup("sessions", []column[sessionRow]{
		{"account_id", typeUUID, func(a *array, r *sessionRow) { a.id(r.key.account) }},
		{"session_id", typeText, func(a *array, r *sessionRow) { a.text(r.key.id) }},
		{"agents", typeTexts, func(a *array, r *sessionRow) { a.text(strings.Join(r.sum.agents, separator)) }},
		{"users", typeTexts, func(a *array, r *sessionRow) { a.text(strings.Join(r.sum.users, separator)) }},
		{"events", typeInt8, func(a *array, r *sessionRow) { a.int8(r.sum.events) }},
		{"errors", typeInt8, func(a *array, r *sessionRow) { a.int8(r.sum.errors) }},
		{"input_tokens", typeNumeric, func(a *array, r *sessionRow) { a.numeric(r.sum.input) }},
		{"output_tokens", typeNumeric, func(a *array, r *sessionRow) { a.numeric(r.sum.output) }},
		{"cost_nano_usd", typeNumeric, func(a *array, r *sessionRow) { a.numeric(r.sum.cost) }},
		{"started_at", typeTimestamptz, func(a *array, r *sessionRow) { a.time(r.sum.started) }},
		{"ended_at", typeTimestamptz, func(a *array, r *sessionRow) { a.time(r.sum.ended) }},
	})
}
