package query_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/report"
)

// endpoint is one row of the table of everything that is served.
type endpoint struct {
	method, path string
	// role is the least that may ask; empty: anybody.
	role account.Role
	// query and body make the request a good one, which is answered with status.
	query, body string
	status      int
	// badQuery names a parameter with a value that is refused, "limit=0".
	badQuery string
	// anyName marks a path whose name need not be known: what it names is made.
	anyName bool
	// last marks what ends the sign-in or the resource that others need.
	last bool
}

// unknownKey is one and the same for all: a network that asks with many is answered 429.
var unknownKey = account.NewSecret()

const viewer, admin, owner = account.Viewer, account.Admin, account.Owner

// endpoints is every endpoint of this tier, in the order in which good requests can follow
// each other. A route that is not here fails the test.
func endpoints() []endpoint {
	budgetBody := `{"limit_usd":50,"period":"day"}`
	return []endpoint{
		{method: "GET", path: "/v1/events", role: viewer, query: "?agent=support-bot&limit=1", badQuery: "limit=0"},
		{method: "GET", path: "/v1/events/export", role: viewer, query: "?format=ndjson", badQuery: "format=x"},
		{method: "GET", path: "/v1/events/{event}", role: viewer, badQuery: "x=1"},
		{method: "GET", path: "/v1/agents", role: viewer, badQuery: "sort=x"},
		{method: "GET", path: "/v1/agents/{agent}", role: viewer, badQuery: "from=soon"},
		{method: "PUT", path: "/v1/agents/{agent}/budget", role: admin, body: budgetBody, anyName: true},
		{method: "GET", path: "/v1/agents/{agent}/budget", role: viewer, badQuery: "x=1"},
		{method: "POST", path: "/v1/agents/{agent}/budget/reset", role: admin},
		{method: "PUT", path: "/v1/account/budget", role: admin, body: budgetBody},
		{method: "GET", path: "/v1/account/budget", role: viewer, badQuery: "x=1"},
		{method: "POST", path: "/v1/account/budget/reset", role: admin},
		{method: "GET", path: "/v1/budgets", role: viewer, badQuery: "cursor=x"},
		{method: "DELETE", path: "/v1/agents/{agent}/budget", role: admin, status: 204},
		{method: "DELETE", path: "/v1/account/budget", role: admin, status: 204},
		{method: "GET", path: "/v1/sessions", role: viewer, badQuery: "include_implicit=x"},
		{method: "GET", path: "/v1/sessions/{session}", role: viewer, badQuery: "cursor=x"},
		{method: "GET", path: "/v1/sessions/{session}/share", role: viewer, badQuery: "expires_in=-1"},
		{method: "GET", path: "/v1/share/{token}", badQuery: "limit=501"},
		{method: "GET", path: "/share/{token}", badQuery: "limit=501"},
		{method: "GET", path: "/share/style.css"},
		{method: "DELETE", path: "/v1/sessions/{session}/share", role: viewer, status: 204, badQuery: "x=1", last: true},
		{method: "DELETE", path: "/v1/sessions/{session}", role: admin, status: 202, badQuery: "x=1", last: true},
		{method: "DELETE", path: "/v1/end-users/{enduser}", role: admin, status: 202, badQuery: "x=1", anyName: true},
		{method: "GET", path: "/v1/analytics/daily", role: viewer, badQuery: "timezone=Mars/Base"},
		{method: "GET", path: "/v1/analytics/hourly", role: viewer, badQuery: "group_by=colour"},
		{method: "GET", path: "/v1/analytics/summary", role: viewer, badQuery: "to=soon"},
		{method: "GET", path: "/v1/integrity", role: viewer, query: "?verify=true", badQuery: "verify=x"},
		{method: "GET", path: "/v1/prices", role: viewer, query: "?model=gpt-4o", badQuery: "at=soon"},
		{method: "POST", path: "/v1/prices/overrides", role: admin, status: 201, body: `{"match":"new","input_usd_per_mtok":1,"output_usd_per_mtok":2}`},
		{method: "GET", path: "/v1/prices/overrides", role: viewer, badQuery: "x=1"},
		{method: "DELETE", path: "/v1/prices/overrides/{override}", role: admin, status: 204},
		{method: "GET", path: "/v1/prices/unpriced", role: viewer, badQuery: "from=2026-02-30"},
		{method: "POST", path: "/v1/prices/reprice", role: admin, status: 202, body: `{"from":"2026-11-01","to":"2026-12-01","model":"gpt-4o","dry_run":true}`},
		{method: "POST", path: "/v1/reports/generate", role: admin, status: 202, body: november},
		{method: "GET", path: "/v1/reports", role: viewer, badQuery: "cursor=x"},
		{method: "GET", path: "/v1/reports/{report}", role: viewer, badQuery: "x=1"},
		{method: "GET", path: "/v1/reports/{report}/download", role: viewer, badQuery: "format=x"},
		{method: "POST", path: "/v1/reports/schedules", role: admin, status: 201, body: weekly},
		{method: "GET", path: "/v1/reports/schedules", role: viewer, badQuery: "x=1"},
		{method: "DELETE", path: "/v1/reports/schedules/{schedule}", role: admin, status: 204},
		{method: "POST", path: "/v1/alerts", role: admin, status: 201, body: costRule},
		{method: "GET", path: "/v1/alerts", role: viewer, badQuery: "cursor=x"},
		{method: "GET", path: "/v1/alerts/{alert}", role: viewer},
		{method: "PATCH", path: "/v1/alerts/{alert}", role: admin, body: `{"name":"other"}`},
		{method: "POST", path: "/v1/alerts/{alert}/test", role: admin, status: 202},
		{method: "GET", path: "/v1/alerts/{alert}/deliveries", role: viewer, badQuery: "cursor=x"},
		{method: "POST", path: "/v1/alerts/{alert}/deliveries/{delivery}/replay", role: admin, status: 404},
		{method: "DELETE", path: "/v1/alerts/{alert}", role: admin, status: 204, last: true},
		{method: "GET", path: "/v1/incidents", role: viewer, badQuery: "cursor=x"},
		{method: "GET", path: "/v1/account", role: viewer, badQuery: "x=1"},
		{method: "PATCH", path: "/v1/account", role: owner, body: `{"name":"Other"}`},
		{method: "PUT", path: "/v1/account/retention", role: owner, body: `{"retention_days":90}`},
		{method: "GET", path: "/v1/account/retention", role: viewer, badQuery: "x=1"},
		{method: "DELETE", path: "/v1/account/retention", role: owner, status: 204},
		{method: "PUT", path: "/v1/account/channels", role: admin, body: `{"channels":[{"type":"email","to":"a@example.com"}]}`},
		{method: "GET", path: "/v1/account/channels", role: viewer},
		{method: "GET", path: "/v1/account/deliveries", role: viewer, badQuery: "cursor=x"},
		{method: "POST", path: "/v1/account/deliveries/{delivery}/replay", role: admin, status: 404},
		{method: "GET", path: "/v1/jobs", role: viewer, badQuery: "state=x"},
		{method: "GET", path: "/v1/jobs/{job}", role: viewer, badQuery: "x=1"},
		{method: "GET", path: "/v1/api-keys", role: admin, badQuery: "x=1"},
		{method: "POST", path: "/v1/api-keys", role: admin, status: 201, body: `{"name":"n"}`},
		{method: "POST", path: "/v1/api-keys/{key}/rotate", role: admin, status: 201, body: `{"grace_seconds":60}`},
		{method: "DELETE", path: "/v1/api-keys/{key}", role: admin, status: 204},
		{method: "GET", path: "/v1/users", role: owner, badQuery: "x=1"},
		{method: "POST", path: "/v1/users", role: owner, status: 201, body: `{"email":"new@example.net","password":"a long password","role":"viewer"}`},
		{method: "PATCH", path: "/v1/users/{user}", role: owner, body: `{"role":"admin"}`},
		{method: "GET", path: "/v1/audit", role: admin, badQuery: "limit=x"},
		{method: "GET", path: "/v1/auth/me", role: viewer},
		{method: "POST", path: "/v1/auth/login", body: `{"email":"alice@example.com","password":"` + password + `"}`},
		{method: "POST", path: "/v1/auth/refresh", body: `{"refresh_token":"x"}`, status: 401},
		{method: "POST", path: "/v1/auth/logout", body: `{"refresh_token":"x"}`, status: 204},
		{method: "GET", path: "/.well-known/jwks.json"},
		{method: "GET", path: "/openapi.json"},
		{method: "GET", path: "/docs"},
		{method: "GET", path: "/docs/style.css"},
		{
			method: "POST", path: "/v1/auth/password", role: viewer, status: 204, last: true,
			body: `{"current_password":"` + password + `","new_password":"another password"}`,
		},
	}
}

const costRule = `{"name":"n","metric":"cost_usd","window":"5m","condition":{"type":"above","value":10},"channels":[{"type":"email","to":"a@example.com"}]}`

// ids are what stands in the place of {event} and so on: one of each kind.
type ids map[string]string

// unknownIDs look like ids, and name nothing.
func unknownIDs(w *world) ids {
	id := schema.NewID(w.now)
	return ids{
		"event": id.Text(schema.EventPrefix), "agent": "nobody%2Fat%20all", "session": "ses_none", "token": strings.Repeat("A", 32),
		"override": id.Text("ovr"), "key": id.Text(schema.KeyPrefix), "user": id.Text(schema.UserPrefix),
		"report": id.Text(report.Prefix), "schedule": id.Text(report.SchedulePrefix), "job": id.Text(job.Prefix),
		"alert": id.Text(alert.RulePrefix), "delivery": id.Text(alert.DeliveryPrefix),
	}
}

// malformedIDs are no ids at all.
var malformedIDs = ids{
	"event": "evt_x", "agent": "%00", "session": "%FF", "token": "x", "override": "1", "key": "usr_x", "user": "'",
	"report": "rpt_", "schedule": "0", "job": "job", "alert": "x", "delivery": "x",
}

var placeholder = regexp.MustCompile(`\{([a-z]+)\}`)

// at is the endpoint's path with ids in it.
func (e *endpoint) at(i ids) string {
	return placeholder.ReplaceAllStringFunc(e.path, func(name string) string { return i[strings.Trim(name, "{}")] })
}

// covers reports whether a path is the endpoint's own, or one that its parameters make.
func (e *endpoint) covers(path string) bool {
	return e.path == path || regexp.MustCompile("^"+placeholder.ReplaceAllString(e.path, "[^/{]+")+"$").MatchString(path)
}

func (e *endpoint) hasID() bool { return strings.Contains(e.path, "{") && !e.anyName }

// ids makes one thing of every kind in the person's account, with names that begin with a
// prefix, and the same thing under names that both accounts have.
func (p *person) ids(prefix string) ids {
	p.t.Helper()
	event := p.newEvent(func(e *schema.Event) { e.Agent, e.SessionID = prefix+"-agent", "ses_"+prefix })
	p.store(p.newEvent(nil), event)
	var key, override, user, schedule struct{ ID string }
	p.post("/v1/reports/schedules", weekly).decode(http.StatusCreated, &schedule)
	p.post("/v1/api-keys", `{"name":"same"}`).decode(http.StatusCreated, &key)
	p.post("/v1/prices/overrides", `{"match":"same","input_usd_per_mtok":1,"output_usd_per_mtok":1}`).decode(http.StatusCreated, &override)
	p.post("/v1/users", `{"email":"`+prefix+`-two@example.com","password":"a long password","role":"viewer"}`).decode(http.StatusCreated, &user)
	p.put("/v1/agents/"+prefix+"-agent/budget", `{"limit_usd":1,"period":"day"}`).want(http.StatusOK)
	return ids{
		"event": event.ID.Text(schema.EventPrefix), "agent": event.Agent, "session": prefix, "enduser": "jane%2Fdoe",
		"token": p.share(prefix, "").Token, "override": override.ID, "key": key.ID, "user": user.ID,
		"report": p.addReport().Text(report.Prefix), "schedule": schedule.ID, "job": p.addJob("test").Text(job.Prefix),
		"alert": p.newAlert(costRule).ID, "delivery": schema.NewID(p.now).Text(alert.DeliveryPrefix), // A rule's first message comes of its test.
	}
}

// Every endpoint, asked from outside: 401 without a good token, 403 for a lesser role, 404
// for what is not there or another account's, 405 for another method, 422 that names what
// is wrong, and the answer of the OpenAPI document for a good request.
func TestEveryEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, database(t), func(c *query.Config) { c.Now = sameQuarter() })
	table := endpoints()
	w.checkComplete(table)
	alices, bobs := w.alice.ids("alices"), w.bob.ids("bobs")
	tokens := map[account.Role]string{
		viewer: w.tokenFor(w.alice.colleague("v@example.org", viewer)), admin: w.tokenFor(w.alice.colleague("a@example.org", admin)),
	}
	untouched := w.bob.everything(table, bobs)
	for i := range table {
		e := &table[i]
		e.refusesStrangers(w, tokens, alices)
		e.refusesOtherMethods(w, table, alices)
		e.findsNothing(w, bobs)
		e.refusesNonsense(w, alices)
	}
	if diff := cmp.Diff(untouched, w.bob.everything(table, bobs)); diff != "" {
		t.Errorf("another account's data changed (-before +after):\n%s", diff)
	}
	for _, last := range []bool{false, true} {
		for i := range table {
			if e := &table[i]; e.last == last {
				e.answers(w, alices)
			}
		}
	}
}

// checkComplete compares the table with the routes of the server.
func (w *world) checkComplete(table []endpoint) {
	w.t.Helper()
	rows := map[string]bool{}
	for _, e := range table {
		rows[e.method+" "+placeholder.ReplaceAllString(e.path, ":")] = true
	}
	parameter := regexp.MustCompile(`:[a-z]+`)
	for _, route := range w.server.Routes() {
		if route.Method == http.MethodHead {
			continue // answers asks with it wherever GET is.
		}
		name := route.Method + " " + parameter.ReplaceAllString(route.Path, ":")
		if !rows[name] {
			w.t.Errorf("%s %s is not in the table of endpoints: add a row", route.Method, route.Path)
		}
		delete(rows, name)
	}
	for name := range rows {
		w.t.Errorf("%s is in the table of endpoints and not served", name)
	}
}

// everything is what a person reads of the own account.
func (p *person) everything(table []endpoint, i ids) []string {
	p.t.Helper()
	var all []string
	for _, e := range table {
		// Opening a link counts, and each summary is of another time.
		if e.method == http.MethodGet && strings.HasPrefix(e.path, "/v1/") && e.path != "/v1/share/{token}" && e.path != "/v1/account/budget" {
			all = append(all, p.settled(e.at(i)+e.query))
		}
	}
	return all
}

// changing are the parts of an answer that are of the time and the address of the question.
var changing = regexp.MustCompile(`"(from|to|at|complete_until|token_expires_at|url)":"[^"]*"|"projected_usd":[0-9.]+`)

// sameQuarter is a clock that stands still before the next quarter of an hour, where what is
// asked for without a time begins anew: answers of before and after would differ.
func sameQuarter() func() time.Time {
	last := time.Now().Truncate(15 * time.Minute).Add(15*time.Minute - time.Microsecond)
	return func() time.Time {
		if now := time.Now(); now.Before(last) {
			return now
		}
		return last
	}
}

// settled is an answer without what changes by itself.
func (p *person) settled(path string) string {
	p.t.Helper()
	answer := p.get(path)
	answer.want(http.StatusOK)
	return changing.ReplaceAllString(string(answer.body), "")
}
