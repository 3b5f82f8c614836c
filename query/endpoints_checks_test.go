package query_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// refusesStrangers asks without a token, with bad ones, and as somebody of a lesser role.
func (e *endpoint) refusesStrangers(w *world, tokens map[account.Role]string, i ids) {
	w.t.Helper()
	if e.role == "" {
		return
	}
	for _, token := range []string{"", "x", unknownKey, w.alice.token[:len(w.alice.token)-3]} {
		answer := w.send(token, e.method, e.at(i)+e.query, e.body)
		answer.refused(http.StatusUnauthorized)
		if answer.header.Get("WWW-Authenticate") != "Bearer" {
			w.t.Errorf("%s: WWW-Authenticate %q", answer.what, answer.header.Get("WWW-Authenticate"))
		}
	}
	for role, token := range tokens {
		if !role.Allows(e.role) {
			w.send(token, e.method, e.at(i)+e.query, e.body).refused(http.StatusForbidden)
		}
	}
}

// refusesOtherMethods asks with every method that no row has for the path.
func (e *endpoint) refusesOtherMethods(w *world, table []endpoint, i ids) {
	w.t.Helper()
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		taken := slices.ContainsFunc(table, func(other endpoint) bool { return other.method == method && other.covers(e.path) }) ||
			// Tracking, which ingest answers.
			e.path == "/v1/events" && method == http.MethodPost
		if taken {
			continue
		}
		answer := w.send(w.alice.token, method, e.at(i), "")
		answer.refused(http.StatusMethodNotAllowed)
		allow := answer.header.Get("Allow")
		if e.method == http.MethodGet && !strings.Contains(allow, http.MethodHead) || !strings.Contains(allow, e.method) {
			w.t.Errorf("%s: Allow %q lacks %s", answer.what, allow, e.method)
		}
		for _, named := range strings.Split(allow, ", ") {
			documented := slices.ContainsFunc(table, func(other endpoint) bool {
				return other.path == e.path && (other.method == named || named == http.MethodHead)
			})
			if !documented && e.path != "/v1/events" {
				w.t.Errorf("%s: Allow %q, but no %s is documented", answer.what, allow, named)
			}
		}
	}
}

// findsNothing asks for what is not there: another account's, unknown, and malformed ids.
func (e *endpoint) findsNothing(w *world, bobs ids) {
	w.t.Helper()
	if !e.hasID() {
		return
	}
	all := []ids{unknownIDs(w), malformedIDs}
	if e.role != "" {
		all = append(all, bobs)
	}
	for _, strange := range all {
		answer := w.send(w.alice.token, e.method, e.at(strange)+e.query, e.body)
		answer.want(http.StatusNotFound)
	}
}

// refusesNonsense sends what the endpoint does not understand.
func (e *endpoint) refusesNonsense(w *world, i ids) {
	w.t.Helper()
	if e.badQuery != "" {
		name, _, _ := strings.Cut(e.badQuery, "=")
		answer := w.send(w.alice.token, e.method, e.at(i)+"?"+e.badQuery, "")
		answer.want(http.StatusUnprocessableEntity)
		if !strings.Contains(string(answer.body), name) {
			w.t.Errorf("%s does not name %s: %s", answer.what, name, answer.body)
		}
	}
	for _, name := range e.parameters(w.t) {
		refusal := w.send(w.alice.token, e.method, e.at(i)+"?"+name+"=", "").refused(http.StatusUnprocessableEntity)
		if refusal.Errors[0].Field != name {
			w.t.Errorf("%s %s?%s=: %+v, want an error of %s", e.method, e.path, name, refusal, name)
		}
	}
	if e.body == "" {
		return
	}
	refusal := w.send(w.alice.token, e.method, e.at(i), `{"nonsense":1}`).refused(http.StatusUnprocessableEntity)
	if refusal.Errors[0].Field != "nonsense" {
		w.t.Errorf("%s %s: %+v, want an error of nonsense", e.method, e.path, refusal)
	}
	for name, nullable := range e.fields(w.t) {
		if nullable {
			continue
		}
		refusal := w.send(w.alice.token, e.method, e.at(i), fmt.Sprintf(`{%q:null}`, name)).refused(http.StatusUnprocessableEntity)
		if !slices.ContainsFunc(refusal.Errors, func(f schema.Fault) bool { return f.Field == name }) {
			w.t.Errorf("%s %s with %s null: %+v", e.method, e.path, name, refusal)
		}
	}
	w.send(w.alice.token, e.method, e.at(i), `[`).refused(http.StatusUnprocessableEntity)
	w.send(w.alice.token, e.method, e.at(i), `{"x":"`+strings.Repeat("x", 65<<10)+`"}`).refused(http.StatusRequestEntityTooLarge)
}

// parameters are those that the document names, and one that it does not. Files take what
// caches add to their address.
func (e *endpoint) parameters(t testing.TB) []string {
	t.Helper()
	if !strings.HasPrefix(e.path, "/v1/") {
		return nil
	}
	return append(queryParameters(e.operation(t)), "nonsense")
}

// fields are those of the body that the document names, and whether they may be null.
func (e *endpoint) fields(t testing.TB) map[string]bool {
	t.Helper()
	fields := map[string]bool{}
	var add func(*openapi3.Schema)
	add = func(s *openapi3.Schema) {
		for name, property := range s.Properties {
			fields[name] = property.Value.Type.Includes("null")
		}
		for _, part := range s.AllOf {
			add(part.Value)
		}
	}
	add(e.operation(t).RequestBody.Value.Content.Get("application/json").Schema.Value)
	if len(fields) == 0 {
		t.Fatalf("%s %s has a body without fields in the document", e.method, e.path)
	}
	return fields
}

func (e *endpoint) operation(t testing.TB) *openapi3.Operation {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		if operation := item.GetOperation(e.method); operation != nil && placeholder.ReplaceAllString(path, ":") == placeholder.ReplaceAllString(e.path, ":") {
			return operation
		}
	}
	t.Fatalf("%s %s is not in the document", e.method, e.path)
	return nil
}

// answers sends the good request.
func (e *endpoint) answers(w *world, i ids) {
	w.t.Helper()
	token := w.alice.token
	if e.role == "" {
		token = ""
	}
	status := e.status
	if status == 0 {
		status = http.StatusOK
	}
	w.send(token, e.method, e.at(i)+e.query, e.body).want(status)
	if e.method == http.MethodGet {
		if head := w.send(token, http.MethodHead, e.at(i)+e.query, ""); head.status != status || len(head.body) > 0 {
			w.t.Errorf("%s = %d with %d bytes, want %d", head.what, head.status, len(head.body), status)
		}
	}
}
