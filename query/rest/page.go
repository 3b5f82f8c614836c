package rest

import (
	"bytes"
	"time"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// List is the response of every endpoint that lists. NextCursor is null on the last page.
type List[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"`
}

// PageOf returns the page of the first limit items. The store is asked for one item more than the limit: when it has
// one, the page gets a cursor that stands behind its last item.
func PageOf[T, R, P any](c *Request, p *Params, limit int, items []T, reply func(*T) R, position func(*T) P) (List[R], error) {
	page := List[R]{Data: make([]R, 0, min(limit, len(items)))}
	for i := range items[:min(limit, len(items))] {
		page.Data = append(page.Data, reply(&items[i]))
	}
	if len(items) <= limit {
		return page, nil
	}
	var err error
	page.NextCursor, err = WriteCursor(c, p, position(&items[limit-1]))
	return page, err
}

// ReplyPage answers what PageOf returns.
func ReplyPage[T, R, P any](c *Request, p *Params, limit int, items []T, reply func(*T) R, position func(*T) P) error {
	page, err := PageOf(c, p, limit, items, reply, position)
	if err != nil {
		return err
	}
	return c.Reply(page)
}

// IDPosition is the last item of a page of what is listed by id, newest first.
type IDPosition struct {
	ID schema.ID `json:"i"`
}

// Valid takes every id: an item that is gone leaves its place.
func (p *IDPosition) Valid() bool { return true }

// Passed reports whether an item was on this page or on one before it.
func (p *IDPosition) Passed(id schema.ID) bool {
	return p != nil && bytes.Compare(id[:], p.ID[:]) >= 0
}

// Before returns the id that the items of the next page come before, nil for the first page.
func (p *IDPosition) Before() *schema.ID {
	if p == nil {
		return nil
	}
	return &p.ID
}

// Page is what the store of users and keys is asked for.
func (p *IDPosition) Page(limit int) account.Page {
	return account.Page{Before: p.Before(), Limit: limit + 1}
}

// TimedPosition is the last item of a page of what is listed by time and id, newest first.
type TimedPosition struct {
	Micros int64     `json:"t"`
	ID     schema.ID `json:"i"`
}

// NewTimedPosition returns the position of an item of this time and id.
func NewTimedPosition(t time.Time, id schema.ID) TimedPosition {
	return TimedPosition{t.UnixMicro(), id}
}

// Valid reports whether an item can have the time of the position.
func (p *TimedPosition) Valid() bool { return InAllTime(time.UnixMicro(p.Micros)) }

// Place returns where a page begins: behind a position, or at end for the first page.
func (p *TimedPosition) Place(end time.Time) usage.Position {
	if p == nil {
		return usage.Position{Time: end}
	}
	return usage.Position{Time: time.UnixMicro(p.Micros), ID: p.ID}
}

// InAllTime reports whether a time of a cursor can be one of an item.
func InAllTime(t time.Time) bool {
	first, end := usage.AllTime()
	return !t.Before(first) && t.Before(end)
}
