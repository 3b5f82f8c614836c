package rest

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"maps"
)

// A cursor is the position behind a page, in a form that clients only pass back.
// It belongs to one question: with other filters it is refused. It is not secret
// and not signed; whatever it says is checked again, and only the account's own
// rows are ever behind it.
type cursor[T any] struct {
	Question uint64 `json:"q"`
	Position T      `json:"p"`
}

// Question is a hash of the endpoint and all parameters that choose and order the
// rows.
func (c *Request) Question(p *Params) uint64 {
	values := maps.Clone(p.Values)
	delete(values, "cursor")
	delete(values, "limit")
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.Request.URL.Path + "?" + values.Encode()))
	return h.Sum64()
}

// WriteCursor returns the cursor that stands behind position.
func WriteCursor[T any](c *Request, p *Params, position T) (*string, error) {
	text, err := json.Marshal(cursor[T]{Question: c.Question(p), Position: position})
	if err != nil {
		return nil, err
	}
	encoded := base64.RawURLEncoding.EncodeToString(text)
	return &encoded, nil
}

// ReadCursor returns the position of the parameter cursor, or nil when there is
// none. valid says whether a position can be one of this endpoint's.
func ReadCursor[T any](c *Request, p *Params, valid func(*T) bool) *T {
	value := p.Values.Get("cursor")
	if value == "" {
		return nil
	}
	const refused = "must be the next_cursor of a page of the same question; leave it out to begin again"
	text, err := base64.RawURLEncoding.Strict().DecodeString(value)
	if err != nil {
		p.Faults.Add("cursor", refused)
		return nil
	}
	var found cursor[T]
	if err := json.Unmarshal(text, &found); err != nil || found.Question != c.Question(p) || !valid(&found.Position) {
		p.Faults.Add("cursor", refused)
		return nil
	}
	return &found.Position
}
