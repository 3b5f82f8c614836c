package query_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/outlayhq/outlay/schema/openapi"
)

// document is the OpenAPI document, loaded once.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(openapi.YAML())
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{"application/x-ndjson", "text/html", "text/css", "text/csv", "application/pdf"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.PlainBodyDecoder)
	}
	return doc, doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater())
})

// seen are the operations of this tier that some test got an answer of.
var seen sync.Map

// holdToDocument fails the test when the answer is not one that the document
// describes. Only addresses that are not in the document may answer freely.
func holdToDocument(t testing.TB, request *http.Request, a *answer) {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatalf("the OpenAPI document is not valid: %v", err)
	}
	route := routeOf(doc, request)
	if route == nil {
		return
	}
	seen.Store(route.Operation.OperationID, true)
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, Route: route},
		Status:                 a.status,
		Header:                 a.header,
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	input.SetBodyBytes(a.body)
	if err := openapi3filter.ValidateResponse(t.Context(), input); err != nil {
		t.Errorf("%s: the answer is not what the document says: %v\n%s", a.what, err, a.body[:min(len(a.body), 1000)])
	}
}

// routeOf finds the operation of a request. A path without parameters wins.
func routeOf(doc *openapi3.T, request *http.Request) *routers.Route {
	var found *routers.Route
	for path, item := range doc.Paths.Map() {
		if operation := item.GetOperation(request.Method); operation != nil && fits(path, request.URL) {
			if found == nil || !strings.Contains(path, "{") {
				found = &routers.Route{Spec: doc, Path: path, PathItem: item, Method: request.Method, Operation: operation}
			}
		}
	}
	return found
}

func fits(template string, u *url.URL) bool {
	want, got := strings.Split(template, "/"), strings.Split(u.EscapedPath(), "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && !(strings.HasPrefix(want[i], "{") && got[i] != "") {
			return false
		}
	}
	return true
}

// checkDocumentCovered returns 1 when the document has an operation of this tier
// that no test of the package got an answer of. It says nothing when only some of
// the tests ran.
func checkDocumentCovered() int {
	doc, err := document()
	if err != nil || partialRun() {
		return 0
	}
	code := 0
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			if _, ok := seen.Load(operation.OperationID); !ok && !ingestOperation(operation) {
				fmt.Fprintf(os.Stderr, "no test had an answer of %s %s\n", method, path)
				code = 1
			}
		}
	}
	return code
}

func ingestOperation(operation *openapi3.Operation) bool {
	return operation.Tags[0] == "Tracking"
}

func partialRun() bool {
	for _, arg := range os.Args[1:] {
		if strings.HasPrefix(arg, "-test.run=") || strings.HasPrefix(arg, "-test.list") ||
			strings.HasPrefix(arg, "-test.skip") || strings.HasPrefix(arg, "-test.short=true") {
			return true
		}
	}
	return false
}
