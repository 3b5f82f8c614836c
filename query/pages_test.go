package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// queryParameters are the names of what an operation takes in the query.
func queryParameters(operation *openapi3.Operation) (names []string) {
	for _, p := range operation.Parameters {
		if p.Value.In == openapi3.ParameterInQuery {
			names = append(names, p.Value.Name)
		}
	}
	return names
}

// listed reports whether an operation answers a list: data that goes on at next_cursor.
func listed(operation *openapi3.Operation) bool {
	media := operation.Responses.Value("200").Value.Content.Get("application/json")
	if media == nil {
		return false
	}
	has := func(name string) bool {
		schemas := append(openapi3.SchemaRefs{media.Schema}, media.Schema.Value.AllOf...)
		return slices.ContainsFunc(schemas, func(s *openapi3.SchemaRef) bool { return s.Value.Properties[name] != nil })
	}
	if sums := has("totals") || has("matched"); has("data") && !has("next_cursor") && !sums {
		panic(operation.OperationID + " answers data without next_cursor")
	}
	return has("data") && has("next_cursor")
}

// lists are the paths of everything that is listed.
func lists(t *testing.T) (paths []string) {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		if operation := item.Get; operation != nil && !ingestOperation(operation) && listed(operation) {
			paths = append(paths, path)
			if names := queryParameters(operation); !slices.Contains(names, "limit") || !slices.Contains(names, "cursor") {
				t.Errorf("GET %s lists and takes %v, want limit and cursor as well", path, names)
			}
		}
	}
	slices.Sort(paths)
	return paths
}

type anyPage struct {
	Data       []json.RawMessage
	NextCursor *string `json:"next_cursor"`
}

// Every list of the document is read in pages by limit and cursor, and refuses bad ones.
func TestListsAreAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	alices := w.alice.ids("alices")
	w.alice.newAlert(costRule)
	w.alice.post("/v1/api-keys", `{"name":"another"}`).want(http.StatusCreated)
	w.alice.post("/v1/prices/overrides", `{"match":"another","input_usd_per_mtok":1,"output_usd_per_mtok":1}`).want(http.StatusCreated)
	w.alice.post("/v1/reports/schedules", weekly).want(http.StatusCreated)
	paths := lists(t)
	if len(paths) < 16 {
		t.Errorf("only %d lists: %v", len(paths), paths)
	}
	for _, path := range paths {
		path = strings.ReplaceAll(path, "/alerts/{id}/", "/alerts/"+alices["alert"]+"/")
		for _, bad := range []string{"limit=0", "limit=501", "limit=x", "limit=", "cursor=x", "cursor=", "agent="} {
			name, _, _ := strings.Cut(bad, "=")
			if refusal := w.alice.get(path + "?" + bad).refused(http.StatusUnprocessableEntity); refusal.Errors[0].Field != name {
				t.Errorf("GET %s?%s: %+v", path, bad, refusal)
			}
		}
		var whole anyPage
		w.alice.get(path+"?limit=500").decode(http.StatusOK, &whole)
		limit := max(1, len(whole.Data)/5)
		var found []json.RawMessage
		for cursor := ""; ; {
			var page anyPage
			w.alice.get(path+fmt.Sprintf("?limit=%d", limit)+cursor).decode(http.StatusOK, &page)
			if len(page.Data) > limit {
				t.Fatalf("GET %s: %d items on a page of %d", path, len(page.Data), limit)
			}
			found = append(found, page.Data...)
			if page.NextCursor == nil || len(found) > len(whole.Data) {
				break
			}
			cursor = "&cursor=" + *page.NextCursor
		}
		if len(whole.Data) != len(found) && whole.NextCursor == nil {
			t.Errorf("GET %s: %d items in pages of %d, %d at once", path, len(found), limit, len(whole.Data))
		}
	}
}

// listedIDs follows the cursors of a list in pages of two, and calls meanwhile after each.
func (p *person) listedIDs(path string, meanwhile func()) (ids []string) {
	p.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Data       []struct{ ID string }
			NextCursor *string `json:"next_cursor"`
		}
		p.get(path+"?limit=2"+cursor).decode(http.StatusOK, &page)
		for _, item := range page.Data {
			ids = append(ids, item.ID)
		}
		if page.NextCursor == nil {
			return ids
		}
		cursor = "&cursor=" + url.QueryEscape(*page.NextCursor)
		meanwhile()
	}
}

// While rows arrive and go, the pages of a list have everything that was there at its
// start and is still there, once and in order.
func TestPagesAreStableWhileRowsArrive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	n := 0
	for path, add := range map[string]func() string{
		"/v1/alerts": func() string { return w.alice.newAlert(costRule).ID },
		"/v1/api-keys": func() (id string) {
			key, _, err := account.NewStore(w.pool, time.Now).CreateKey(t.Context(), w.alice.account, account.NewKey{Name: "k"})
			if err != nil {
				t.Fatal(err)
			}
			return key.ID.Text(schema.KeyPrefix)
		},
		"/v1/users": func() string {
			n++
			return w.alice.colleague(fmt.Sprintf("u%d@example.org", n), viewer).ID.Text(schema.UserPrefix)
		},
		"/v1/prices/overrides": func() string {
			n++
			var made struct{ ID string }
			w.alice.post("/v1/prices/overrides", fmt.Sprintf(`{"match":"M%d","input_usd_per_mtok":1,"output_usd_per_mtok":1}`, 1000+n)).decode(http.StatusCreated, &made)
			return made.ID
		},
		"/v1/reports/schedules": func() string {
			var made struct{ ID string }
			w.alice.post("/v1/reports/schedules", weekly).decode(http.StatusCreated, &made)
			return made.ID
		},
	} {
		for range 5 {
			add()
		}
		before := w.alice.listedIDs(path, func() {})
		during := w.alice.listedIDs(path, func() { add() })
		if diff := cmp.Diff(before, slices.DeleteFunc(slices.Clone(during), func(id string) bool { return !slices.Contains(before, id) })); diff != "" {
			t.Errorf("GET %s (-before +while rows arrive):\n%s", path, diff)
		}
		if slices.Sort(during); len(slices.Compact(during)) != len(during) {
			t.Errorf("GET %s: an item comes twice: %v", path, during)
		}
	}
}
