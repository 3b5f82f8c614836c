package query

import (
	"bytes"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// idPosition is the last item of a page of what is listed by id, newest first.
type idPosition struct {
	ID schema.ID `json:"i"`
}

// valid takes every id: an item that is gone leaves its place.
func (p *idPosition) valid() bool { return true }

// passed reports whether an item comes before the page that begins behind p.
func (p *idPosition) passed(id schema.ID) bool {
	return p != nil && bytes.Compare(id[:], p.ID[:]) >= 0
}

// page is what the store is asked for: one more than the limit shows whether there are more.
func (p *idPosition) page(limit int) account.Page {
	if p == nil {
		return account.Page{Limit: limit + 1}
	}
	return account.Page{Before: &p.ID, Limit: limit + 1}
}

// pageOf returns the page of the first limit items, with a cursor if there are more.
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
