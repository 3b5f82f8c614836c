package query

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// Whatever a question says, and the cursor of it, reading it ends in a refusal that
// says why, or in filters and a position that can be put to the database.
func FuzzQuestion(f *testing.F) {
	f.Add("agent=a&model=gpt-4o&from=2026-01-01&to=2026-02-01T00:00:00%2B02:00&limit=7", `{"t":1767225600000000,"i":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}`)
	f.Add("tag=a&tag=b&min_cost_usd=0.000000001&status=error&session_id=ses_x&timezone=Europe/Berlin", `{"k":"12","s":"ses_one"}`)
	f.Add("sort=cost_usd&order=asc&q=%25", `{"f":946684800,"t":946684801,"k":"1","n":"a"}`)
	f.Add("a=%zz;b&limit=&agent=%00", `null`)
	f.Fuzz(func(t *testing.T, query, position string) {
		c := &rest.Request{Context: &gin.Context{Request: &http.Request{URL: &url.URL{Path: "/v1/things", RawQuery: query}}}}
		p := c.Params(eventFilters("limit", "cursor", "timezone", "sort", "order")...)
		filter, limit, zone := eventFilter(p), p.Limit(), p.Zone()
		checkPosition(t, c, position, (*rest.TimedPosition).Valid)
		checkPosition(t, c, position, (*agentPosition).valid)
		checkPosition(t, c, position, (*pricePosition).valid)
		checkPosition(t, c, position, func(at *sessionPosition) bool { return at.valid(usage.SessionsByStart) })
		if err := p.Err(); err != nil {
			var refusal *problem.Problem
			if !errors.As(err, &refusal) || refusal.Code != problem.Invalid {
				t.Errorf("refused with %v", err)
			}
			return
		}
		first, end := usage.AllTime()
		if limit < 1 || limit > rest.MaxLimit || zone == nil || filter.From.Before(first) || !filter.From.Before(filter.To) || filter.To.After(end) {
			t.Errorf("limit %d, zone %v, from %v to %v", limit, zone, filter.From, filter.To)
		}
		for _, text := range []*string{filter.Agent, filter.Model, filter.Provider, filter.UserID, filter.Text} {
			if text != nil && schema.TextFault(*text, schema.MaxNameLength) != "" {
				t.Errorf("accepted text %q", *text)
			}
		}
	})
}

// checkPosition holds that a cursor with the position is refused, or is written again
// as one that reads the same.
func checkPosition[T any](t *testing.T, c *rest.Request, position string, valid func(*T) bool) {
	t.Helper()
	ask := func(cursor string) (*T, error) {
		p := &rest.Params{Values: url.Values{"cursor": {cursor}}}
		return rest.ReadCursor(c, p, valid), p.Err()
	}
	text := fmt.Sprintf(`{"q":%d,"p":%s}`, c.Question(&rest.Params{Values: url.Values{}}), position)
	at, err := ask(base64.RawURLEncoding.EncodeToString([]byte(text)))
	if err != nil {
		return
	}
	if at == nil || !valid(at) {
		t.Fatalf("%s is taken as %+v", position, at)
	}
	again, err := rest.WriteCursor(c, &rest.Params{Values: url.Values{}}, *at)
	if err != nil {
		t.Fatal(err)
	}
	read, err := ask(*again)
	if err != nil {
		t.Fatalf("the cursor of %+v is refused: %v", *at, err)
	}
	if diff := cmp.Diff(at, read); diff != "" {
		t.Errorf("written again it differs:\n%s", diff)
	}
}
