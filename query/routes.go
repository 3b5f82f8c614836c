package query

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/problem"
	"github.com/outlayhq/outlay/schema/report"
	"github.com/outlayhq/outlay/schema/tariff"
)

// newEngine returns the router with what every request passes first: id, headers, counting, and the rescue of panics.
func (s *Server) newEngine(trustedProxies []string) (*gin.Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	// An agent's name may hold any character: %2F in a path is a part of it, and so
	// is a plus sign, of which gin would make a space. request.Param decodes.
	e.UseEscapedPath = true
	e.UnescapePathValues = false
	// A redirect would lose the body of a POST, and hides a mistake in a client.
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	// X-Real-IP, which gin believes as well, is not a list: a proxy that only appends
	// to X-Forwarded-For would let a client set it.
	e.RemoteIPHeaders = []string{"X-Forwarded-For"}
	// nil trusts none, where gin by itself would trust all.
	if err := e.SetTrustedProxies(trustedProxies); err != nil {
		return nil, fmt.Errorf("query: --trusted-proxies: %w", err)
	}
	e.Use(rest.Identify, rest.Secure, s.measure, s.rescue)
	e.NoRoute(s.adapt(notFound))
	e.NoMethod(s.adapt(s.methodNotAllowed))
	s.routes(e)
	return e, nil
}

// routes lists every endpoint, in the order of the OpenAPI document.
func (s *Server) routes(e *gin.Engine) {
	// handle adds a route. GET is answered for HEAD as well, from the same handler.
	handle := func(method, path string, h gin.HandlerFunc) {
		e.Handle(method, path, h)
		s.methods[path] = append(s.methods[path], method)
		if method == http.MethodGet {
			e.Handle(http.MethodHead, path, h) // net/http leaves the body out.
			s.methods[path] = append(s.methods[path], http.MethodHead)
		}
	}
	// open endpoints take no credentials: signing in, share links, the documentation.
	open := func(method, path string, h handler) { handle(method, path, s.adapt(plain(method, h))) }
	// needs returns what adds endpoints of a role. The order is: who asks, how often, in whose turn, and only then
	// what is asked.
	needs := func(role account.Role) func(string, string, handler) {
		return func(method, path string, h handler) {
			handle(method, path, s.adapt(s.allow(role, s.inTurn(s.turns, plain(method, h)))))
		}
	}
	viewer, admin, owner := needs(account.Viewer), needs(account.Admin), needs(account.Owner)
	// urgent is what ends a misuse: it waits for no other request of the account.
	urgent := func(role account.Role, method, path string, h handler) {
		handle(method, path, s.adapt(s.allowCounted(role, s.countUrgent, plain(method, h))))
	}

	// Events, and what they add up to by agent. Budgets of agents and of the account have the same handlers.
	viewer(http.MethodGet, "/v1/events", s.listEvents)
	handle(http.MethodGet, "/v1/events/export", s.adapt(s.allow(account.Viewer, s.inTurn(s.exports, s.exportEvents))))
	viewer(http.MethodGet, "/v1/events/:id", bare(ofID(schema.EventPrefix, "event", s.event)))
	viewer(http.MethodGet, "/v1/agents", s.listAgents)
	viewer(http.MethodGet, "/v1/agents/:name", s.agent)
	viewer(http.MethodGet, "/v1/agents/:name/budget", bare(ofAgent(s.budget)))
	admin(http.MethodPut, "/v1/agents/:name/budget", ofAgent(s.putBudget))
	admin(http.MethodDelete, "/v1/agents/:name/budget", ofAgent(s.deleteBudget))
	admin(http.MethodPost, "/v1/agents/:name/budget/reset", ofAgent(s.resetBudget))
	viewer(http.MethodGet, "/v1/account/budget", bare(ofAccount(s.budget)))
	admin(http.MethodPut, "/v1/account/budget", ofAccount(s.putBudget))
	admin(http.MethodDelete, "/v1/account/budget", ofAccount(s.deleteBudget))
	admin(http.MethodPost, "/v1/account/budget/reset", ofAccount(s.resetBudget))
	viewer(http.MethodGet, "/v1/budgets", s.listBudgets)
	// Sessions, their links, and the erasure of content.
	viewer(http.MethodGet, "/v1/sessions", s.listSessions)
	viewer(http.MethodGet, "/v1/sessions/:id", s.session)
	admin(http.MethodDelete, "/v1/sessions/:id", s.eraseSession)
	admin(http.MethodDelete, "/v1/end-users/:user", s.eraseUser)
	viewer(http.MethodGet, "/v1/sessions/:id/share", ofUser(s.shareSession))
	viewer(http.MethodDelete, "/v1/sessions/:id/share", s.unshareSession)
	open(http.MethodGet, "/v1/share/:token", s.sharedSession)
	open(http.MethodGet, "/share/:token", s.sharePage)
	open(http.MethodGet, "/share/style.css", s.shareStyle)
	// Sums over time.
	viewer(http.MethodGet, "/v1/analytics/daily", s.daily)
	viewer(http.MethodGet, "/v1/analytics/hourly", s.hourly)
	viewer(http.MethodGet, "/v1/analytics/summary", s.summary)
	viewer(http.MethodGet, "/v1/integrity", s.integrity)
	// Prices. What is counted makes a row that stays.
	viewer(http.MethodGet, "/v1/prices", s.listPrices)
	viewer(http.MethodGet, "/v1/prices/overrides", s.listOverrides)
	admin(http.MethodPost, "/v1/prices/overrides", s.counted(ofBody(s.createOverride)))
	admin(http.MethodDelete, "/v1/prices/overrides/:id", ofID(tariff.Prefix, "price override", s.deleteOverride))
	viewer(http.MethodGet, "/v1/prices/unpriced", s.listUnpriced)
	admin(http.MethodPost, "/v1/prices/reprice", s.counted(ofBody(s.reprice)))
	// Reports, their schedules, and the jobs of all kinds.
	admin(http.MethodPost, "/v1/reports/generate", s.counted(ofBody(s.generateReport)))
	viewer(http.MethodGet, "/v1/reports", s.listReports)
	viewer(http.MethodGet, "/v1/reports/:id", bare(ofID(report.Prefix, "report", s.oneReport)))
	viewer(http.MethodGet, "/v1/reports/:id/download", ofID(report.Prefix, "report", s.downloadReport))
	viewer(http.MethodGet, "/v1/reports/schedules", s.listSchedules)
	admin(http.MethodPost, "/v1/reports/schedules", s.counted(ofBody(s.createSchedule)))
	admin(http.MethodDelete, "/v1/reports/schedules/:id", ofID(report.SchedulePrefix, "schedule", s.deleteSchedule))
	viewer(http.MethodGet, "/v1/jobs", s.listJobs)
	viewer(http.MethodGet, "/v1/jobs/:id", bare(ofID(job.Prefix, "job", s.job)))
	// Alert rules. A message belongs to a rule, or to the account's own channels below.
	viewer(http.MethodGet, "/v1/alerts", s.listAlerts)
	admin(http.MethodPost, "/v1/alerts", s.counted(s.createAlert))
	viewer(http.MethodGet, "/v1/alerts/:id", bare(ofRule(s.alert)))
	admin(http.MethodPatch, "/v1/alerts/:id", ofRule(s.changeAlert))
	admin(http.MethodDelete, "/v1/alerts/:id", ofRule(s.deleteAlert))
	admin(http.MethodPost, "/v1/alerts/:id/test", s.counted(ofRule(s.testAlert)))
	viewer(http.MethodGet, "/v1/alerts/:id/deliveries", ofRule(s.ofKnownRule(s.listDeliveries)))
	admin(http.MethodPost, "/v1/alerts/:id/deliveries/:delivery/replay", ofRule(s.ofKnownRule(s.replayDelivery)))
	viewer(http.MethodGet, "/v1/incidents", s.listIncidents)
	// The account's own settings.
	viewer(http.MethodGet, "/v1/account", bare(s.ownAccount))
	owner(http.MethodPatch, "/v1/account", ofBody(s.changeAccount))
	viewer(http.MethodGet, "/v1/account/retention", bare(s.retention))
	owner(http.MethodPut, "/v1/account/retention", ofBody(s.putRetention))
	owner(http.MethodDelete, "/v1/account/retention", s.deleteRetention)
	viewer(http.MethodGet, "/v1/account/channels", bare(s.ownChannels))
	admin(http.MethodPut, "/v1/account/channels", ofBody(s.putOwnChannels))
	viewer(http.MethodGet, "/v1/account/deliveries", ofOwnChannels(s.listDeliveries))
	admin(http.MethodPost, "/v1/account/deliveries/:delivery/replay", ofOwnChannels(s.replayDelivery))

	// Signing in. Refreshing and signing out take a refresh token in the body, so they are open.
	open(http.MethodPost, "/v1/auth/login", ofBody(s.login))
	open(http.MethodPost, "/v1/auth/refresh", s.refresh)
	open(http.MethodPost, "/v1/auth/logout", s.logout)
	urgent(account.Viewer, http.MethodPost, "/v1/auth/password", ofBody(s.changePassword))
	viewer(http.MethodGet, "/v1/auth/me", ofUser(bare(s.me)))
	open(http.MethodGet, "/.well-known/jwks.json", s.jwks)
	// Who may use the account, and who did what.
	admin(http.MethodGet, "/v1/api-keys", s.listKeys)
	admin(http.MethodPost, "/v1/api-keys", s.counted(ofBody(s.createKey)))
	admin(http.MethodPost, "/v1/api-keys/:id/rotate", s.counted(ofID(schema.KeyPrefix, "API key", s.rotateKey)))
	urgent(account.Admin, http.MethodDelete, "/v1/api-keys/:id", ofID(schema.KeyPrefix, "API key", s.revokeKey))
	owner(http.MethodGet, "/v1/users", s.listUsers)
	owner(http.MethodPost, "/v1/users", s.counted(ofBody(s.createUser)))
	urgent(account.Owner, http.MethodPatch, "/v1/users/:id", ofID(schema.UserPrefix, "user", s.changeUser))
	admin(http.MethodGet, "/v1/audit", s.listActs)

	// The documentation of this document's endpoints, for programs and people.
	open(http.MethodGet, "/openapi.json", s.openapi)
	open(http.MethodGet, "/docs", s.docsPage)
	open(http.MethodGet, "/docs/style.css", s.docsStyle)
}

// plain is bare for requests that change something: none of these takes parameters.
func plain(method string, h handler) handler {
	if method == http.MethodGet {
		return h
	}
	return bare(h)
}

// bare refuses all parameters in the query string.
func bare(h handler) handler {
	return func(c *rest.Request) error {
		if err := c.Params().Err(); err != nil {
			return err
		}
		return h(c)
	}
}

// ofID gives h the id that the path has in the place of :id. One that cannot be an id of this kind is answered like
// one that does not exist.
func ofID(prefix schema.Prefix, what string, h func(c *rest.Request, id schema.ID) error) handler {
	return func(c *rest.Request) error {
		id, err := schema.ParseID(prefix, c.Param("id"))
		if err != nil {
			return notThere(what)
		}
		return h(c, id)
	}
}

// ofBody gives h the JSON object of the body. One that has a method err is checked by it first.
func ofBody[R any](h func(c *rest.Request, request *R) error) handler {
	return func(c *rest.Request) error {
		request := new(R)
		if err := c.Body(request); err != nil {
			return err
		}
		if checked, ok := any(request).(interface{ err() error }); ok {
			if err := checked.err(); err != nil {
				return err
			}
		}
		return h(c, request)
	}
}

// notFound answers an address that no endpoint has.
func notFound(*rest.Request) error {
	return problem.New(problem.NotFound, "There is nothing at this address. The endpoints are described at /docs, and in /openapi.json for programs.")
}

// methodNotAllowed answers an address that has other methods, and names them.
func (s *Server) methodNotAllowed(c *rest.Request) error {
	methods := slices.Clone(s.methods[c.Request.URL.Path])
	// The path has a parameter; then what the router found is right.
	if methods == nil {
		methods = strings.Split(c.Writer.Header().Get("Allow"), ", ")
	}
	// One gateway serves both tiers under one address.
	if c.Request.URL.Path == "/v1/events" {
		methods = append(methods, http.MethodPost) // Ingest answers it.
	}
	slices.Sort(methods)
	allow := strings.Join(methods, ", ")
	c.Header("Allow", allow)
	return problem.New(problem.MethodNotAllowed, "This address takes other methods: "+allow+".")
}
