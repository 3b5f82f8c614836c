package query_test

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/query"
)

// The document describes every endpoint of this tier and no other.
func TestEveryRouteIsInTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	_, keys := newKeys(t)
	server, err := query.New(query.Config{Pool: database(t), Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	var served, described []string
	parameter := regexp.MustCompile(`:([a-z]+)`)
	for _, route := range server.Routes() {
		if route.Method == http.MethodHead {
			continue // It is where GET is.
		}
		served = append(served, route.Method+" "+parameter.ReplaceAllString(route.Path, "{$1}"))
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			if !ingestOperation(operation) {
				described = append(described, method+" "+path)
			}
		}
	}
	slices.Sort(served)
	slices.Sort(described)
	if diff := cmp.Diff(described, served); diff != "" {
		t.Errorf("endpoints (-described +served):\n%s", diff)
	}
}

// The page for people names every endpoint, and loads nothing but its own style.
func TestDocsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	answer := w.send("", http.MethodGet, "/docs", "")
	answer.want(http.StatusOK)
	page := string(answer.body)
	items := doc.Paths.Map()
	maps.Copy(items, doc.Webhooks)
	for path, item := range items {
		for _, operation := range item.Operations() {
			if !strings.Contains(page, `id="`+operation.OperationID+`"`) || !strings.Contains(page, "<code>"+path+"</code>") {
				t.Errorf("the page lacks %s", path)
			}
		}
	}
	for _, untold := range []string{"</td><td></td><td>", "array of <"} {
		if at := strings.Index(page, untold); at >= 0 {
			t.Errorf("the page does not say what a value may be: %s", page[max(0, at-200):at])
		}
	}
	for _, outside := range []string{"<script", "src=", `href="http`, "style=", "<no value>", "%!"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
	style := w.send("", http.MethodGet, "/docs/style.css", "")
	style.want(http.StatusOK)
	if got := style.header.Get("Content-Type"); !strings.HasPrefix(got, "text/css") {
		t.Errorf("style: Content-Type %q", got)
	}
}
