package query

import (
	"bytes"
	"time"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// list is the response of every endpoint that lists. NextCursor is null on the last page.
type list[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"`
}

// pageOf returns the page of the first limit items. The store is asked for one item more than the limit: when it has
// one, the page gets a cursor that stands behind its last item.
func pageOf[T, R, P any](c *request, p *params, limit int, items []T, reply func(*T) R, position func(*T) P) (list[R], error) {
	page := list[R]{Data: make([]R, 0, min(limit, len(items)))}
	for i := range items[:min(limit, len(items))] {
		page.Data = append(page.Data, reply(&items[i]))
	}
	if len(items) <= limit {
		return page, nil
	}
	var err error
	page.NextCursor, err = writeCursor(c, p, position(&items[limit-1]))
	return page, err
}

// replyPage answers what pageOf returns.
func replyPage[T, R, P any](c *request, p *params, limit int, items []T, reply func(*T) R, position func(*T) P) error {
	page, err := pageOf(c, p, limit, items, reply, position)
	if err != nil {
		return err
	}
	return c.reply(page)
}

// idPosition is the last item of a page of what is listed by id, newest first.
type idPosition struct {
	ID schema.ID `json:"i"`
}

// valid takes every id: an item that is gone leaves its place.
func (p *idPosition) valid() bool { return true }

// passed reports whether an item was on this page or on one before it.
func (p *idPosition) passed(id schema.ID) bool {
	return p != nil && bytes.Compare(id[:], p.ID[:]) >= 0
}

// before returns the id that the items of the next page come before, nil for the first page.
func (p *idPosition) before() *schema.ID {
	if p == nil {
		return nil
	}
	return &p.ID
}

// page is what the store of users and keys is asked for.
func (p *idPosition) page(limit int) account.Page {
	return account.Page{Before: p.before(), Limit: limit + 1}
}

// timedPosition is the last item of a page of what is listed by time and id, newest first.
type timedPosition struct {
	Micros int64     `json:"t"`
	ID     schema.ID `json:"i"`
}

func newTimedPosition(t time.Time, id schema.ID) timedPosition {
	return timedPosition{t.UnixMicro(), id}
}

func (p *timedPosition) valid() bool { return inAllTime(time.UnixMicro(p.Micros)) }

// place returns where a page begins: behind a position, or at end for the first page.
func (p *timedPosition) place(end time.Time) usage.Position {
	if p == nil {
		return usage.Position{Time: end}
	}
	return usage.Position{Time: time.UnixMicro(p.Micros), ID: p.ID}
}

// inAllTime reports whether a time of a cursor can be one of an item.
func inAllTime(t time.Time) bool {
	first, end := usage.AllTime()
	return !t.Before(first) && t.Before(end)
}
