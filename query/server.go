// Package query is the last stage of the pipeline: it signs people in and answers
// over HTTP what their agents spent, from the tables that the processor fills. It
// promises exact sums, answers that agree with each other, and that nobody sees
// another account's data. SQL is in package usage, tokens in package auth.
package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/query/docs"
	"github.com/outlayhq/outlay/query/share"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/openapi"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/problem"
	"github.com/outlayhq/outlay/schema/report"
	"github.com/outlayhq/outlay/schema/secret"
	"github.com/outlayhq/outlay/schema/tariff"
	"github.com/outlayhq/outlay/schema/webhook"
)

// Server answers the requests of the query tier. It holds no state but caches, so
// any number of replicas may run.
type Server struct {
	usage    *usage.Store
	accounts *account.Store
	hasher   *account.Hasher
	signIn   *auth.SignIn
	signIns  *auth.SignIns
	failures *failures
	secrets  *secret.Keys
	// pool is for the few questions before it is known which account asks.
	pool      *pgxpool.Pool
	sessions  *auth.SessionState
	tokens    *auth.Tokens
	federated *auth.Federated
	verifier  *auth.Verifier
	keys      *auth.Keys
	apiKeys   *account.ReadKeys
	prices    func() *price.Book
	document  []byte
	docs      []byte
	channels  channelPolicy
	// eventsPerMinute is the limit of a plan.
	eventsPerMinute func(account.Plan) int64
	// limits bound what an account asks: reads and creations count its requests, turns and exports those under way.
	limits    Limits
	reads     *rateLimit
	creations *rateLimit
	turns     *turns
	exports   *turns
	// publicURL is where clients reach this server, without a slash at the end.
	publicURL string
	// shareViews bounds how often a network opens one share link, shareMisses how
	// often it tries what is none. goodShares are links that were opened before.
	shareViews  *rateLimit
	shareMisses *rateLimit
	goodShares  *recentLinks
	sharePages  *share.Pages

	now     func() time.Time
	log     *slog.Logger
	metrics *metrics
	engine  *gin.Engine
	handler http.Handler // engine, with compression around it
	// methods are those of each path. Of an address without parameters the router would also name those of an address with
	// one in its place.
	methods map[string][]string
}

// New returns a Server. It does not touch the database.
func New(config Config) (*Server, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	document, err := openapi.JSON()
	if err != nil {
		return nil, err
	}
	page, err := docs.Page(openapi.YAML())
	if err != nil {
		return nil, err
	}
	sharePages, err := share.New()
	if err != nil {
		return nil, err
	}
	s := &Server{
		usage:     usage.NewStore(config.Pool, config.StatementTimeout),
		accounts:  account.NewStore(config.Pool, config.Now),
		hasher:    account.NewHasher(config.ConcurrentSignIns),
		signIns:   auth.NewSignIns(config.SignInLifetime, config.Now),
		pool:      config.Pool,
		secrets:   config.Secrets,
		tokens:    auth.NewTokens(config.Keys, config.Issuer, config.TokenLifetime, config.Now),
		keys:      config.Keys,
		apiKeys:   account.NewReadKeys(config.Pool, config.Now),
		prices:    config.Prices,
		document:  document,
		docs:      page,
		channels:  channelPolicy{config.Mail, webhook.NewPolicy(config.Webhooks), config.Resolver},
		publicURL: config.PublicURL,

		eventsPerMinute: config.EventsPerMinute,
		limits:          config.Limits,
		reads:           newRateLimit(config.Now),
		creations:       newRateLimit(config.Now),
		turns:           newTurns(config.Limits.AtOnce),
		exports:         newTurns(exportsAtOnce),
		shareViews:      newRateLimit(config.Now),
		shareMisses:     newRateLimit(config.Now),
		goodShares:      newRecentLinks(),
		sharePages:      sharePages,
		now:             config.Now,
		log:             config.Log,
		metrics:         newMetrics(config.Metrics),
		methods:         map[string][]string{},
	}
	s.signIn = auth.NewSignIn(s.accounts, s.hasher, auth.NewThrottle(config.Now), s.signIns.Familiar(config.Pool))
	s.sessions = auth.NewSessionState(s.usage, config.Now)
	s.failures = &failures{
		queue: make(chan failedSignIn, maxFailures), usage: s.usage, accounts: s.accounts, now: config.Now, log: config.Log, metrics: s.metrics,
	}
	s.federated, err = auth.NewFederated(config.IdentityProviders, config.Issuer, auth.FederatedDeps{
		Now: config.Now, Log: config.Log, Fetched: s.metrics.keysFetched,
	})
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	s.verifier = auth.NewVerifier(s.tokens, s.federated, auth.VerifierDeps{
		Now: config.Now, Checked: s.metrics.tokenChecked, Federated: s.metrics.federatedToken,
	})
	if s.engine, err = s.newEngine(config.TrustedProxies); err != nil {
		return nil, err
	}
	if s.handler, err = compress(s.engine); err != nil {
		return nil, err
	}
	return s, nil
}

// How often a network may open one and the same share link in a minute, and how many
// links that do not exist it may try.
const (
	shareViewsPerMinute  = 120
	shareMissesPerMinute = 60
)

// Handler answers the requests. It is safe for concurrent use.
func (s *Server) Handler() http.Handler { return s.handler }

// Run does what is to be done besides answering requests, until ctx ends: it keeps the
// keys of the identity providers fresh, notices changed users and plans, and writes failed sign-ins to the audit log.
func (s *Server) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.failures.run(ctx) })
	changes := account.Watch{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
		},
		Load: func(ctx context.Context, conn *pgx.Conn) error {
			s.sessions.Changed()
			return conn.Ping(ctx) // A connection that is open at this end only brings no notices.
		},
		Tables: []string{"accounts", "users", "refresh_tokens"},
		Log:    s.log,
	}
	wg.Go(func() { changes.Run(ctx) })
	s.federated.Run(ctx)
}

// Ready returns nil when the database answers and its tables are there.
func (s *Server) Ready(ctx context.Context) error { return s.usage.Ping(ctx) }

func (s *Server) newEngine(trustedProxies []string) (*gin.Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	// An agent's name may hold any character: %2F in a path is a part of it, and so
	// is a plus sign, of which gin would make a space. request.Param decodes.
	e.UseEscapedPath = true
	e.UnescapePathValues = false
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	// X-Real-IP, which gin believes as well, is not a list: a proxy that only appends
	// to X-Forwarded-For would let a client set it.
	e.RemoteIPHeaders = []string{"X-Forwarded-For"}
	if err := e.SetTrustedProxies(trustedProxies); err != nil {
		return nil, fmt.Errorf("query: --trusted-proxies: %w", err)
	}
	e.Use(identify, secure, s.measure, s.rescue)
	e.NoRoute(s.adapt(notFound))
	e.NoMethod(s.adapt(s.methodNotAllowed))
	s.routes(e)
	return e, nil
}

// routes lists every endpoint, in the order of the OpenAPI document.
func (s *Server) routes(e *gin.Engine) {
	handle := func(method, path string, h gin.HandlerFunc) {
		e.Handle(method, path, h)
		s.methods[path] = append(s.methods[path], method)
		if method == http.MethodGet {
			e.Handle(http.MethodHead, path, h) // net/http leaves the body out.
			s.methods[path] = append(s.methods[path], http.MethodHead)
		}
	}
	open := func(method, path string, h handler) { handle(method, path, s.adapt(plain(method, h))) }
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
	viewer(http.MethodGet, "/v1/sessions", s.listSessions)
	viewer(http.MethodGet, "/v1/sessions/:id", s.session)
	admin(http.MethodDelete, "/v1/sessions/:id", s.eraseSession)
	admin(http.MethodDelete, "/v1/end-users/:user", s.eraseUser)
	viewer(http.MethodGet, "/v1/sessions/:id/share", ofUser(s.shareSession))
	viewer(http.MethodDelete, "/v1/sessions/:id/share", s.unshareSession)
	open(http.MethodGet, "/v1/share/:token", s.sharedSession)
	open(http.MethodGet, "/share/:token", s.sharePage)
	open(http.MethodGet, "/share/style.css", s.shareStyle)
	viewer(http.MethodGet, "/v1/analytics/daily", s.daily)
	viewer(http.MethodGet, "/v1/analytics/hourly", s.hourly)
	viewer(http.MethodGet, "/v1/analytics/summary", s.summary)
	viewer(http.MethodGet, "/v1/integrity", s.integrity)
	viewer(http.MethodGet, "/v1/prices", s.listPrices)
	viewer(http.MethodGet, "/v1/prices/overrides", s.listOverrides)
	admin(http.MethodPost, "/v1/prices/overrides", s.counted(s.createOverride))
	admin(http.MethodDelete, "/v1/prices/overrides/:id", ofID(tariff.Prefix, "price override", s.deleteOverride))
	viewer(http.MethodGet, "/v1/prices/unpriced", s.listUnpriced)
	admin(http.MethodPost, "/v1/prices/reprice", s.counted(s.reprice))
	admin(http.MethodPost, "/v1/reports/generate", s.counted(s.generateReport))
	viewer(http.MethodGet, "/v1/reports", s.listReports)
	viewer(http.MethodGet, "/v1/reports/:id", bare(ofID(report.Prefix, "report", s.oneReport)))
	viewer(http.MethodGet, "/v1/reports/:id/download", ofID(report.Prefix, "report", s.downloadReport))
	viewer(http.MethodGet, "/v1/reports/schedules", s.listSchedules)
	admin(http.MethodPost, "/v1/reports/schedules", s.counted(s.createSchedule))
	admin(http.MethodDelete, "/v1/reports/schedules/:id", ofID(report.SchedulePrefix, "schedule", s.deleteSchedule))
	viewer(http.MethodGet, "/v1/jobs", s.listJobs)
	viewer(http.MethodGet, "/v1/jobs/:id", bare(ofID(job.Prefix, "job", s.job)))
	viewer(http.MethodGet, "/v1/alerts", s.listAlerts)
	admin(http.MethodPost, "/v1/alerts", s.counted(s.createAlert))
	viewer(http.MethodGet, "/v1/alerts/:id", bare(ofRule(s.alert)))
	admin(http.MethodPatch, "/v1/alerts/:id", ofRule(s.changeAlert))
	admin(http.MethodDelete, "/v1/alerts/:id", ofRule(s.deleteAlert))
	admin(http.MethodPost, "/v1/alerts/:id/test", s.counted(ofRule(s.testAlert)))
	viewer(http.MethodGet, "/v1/alerts/:id/deliveries", ofRule(s.ofKnownRule(s.listDeliveries)))
	admin(http.MethodPost, "/v1/alerts/:id/deliveries/:delivery/replay", ofRule(s.ofKnownRule(s.replayDelivery)))
	viewer(http.MethodGet, "/v1/incidents", s.listIncidents)
	viewer(http.MethodGet, "/v1/account", bare(s.ownAccount))
	owner(http.MethodPatch, "/v1/account", s.changeAccount)
	viewer(http.MethodGet, "/v1/account/retention", bare(s.retention))
	owner(http.MethodPut, "/v1/account/retention", s.putRetention)
	owner(http.MethodDelete, "/v1/account/retention", s.deleteRetention)
	viewer(http.MethodGet, "/v1/account/channels", bare(s.ownChannels))
	admin(http.MethodPut, "/v1/account/channels", s.putOwnChannels)
	viewer(http.MethodGet, "/v1/account/deliveries", ofOwnChannels(s.listDeliveries))
	admin(http.MethodPost, "/v1/account/deliveries/:delivery/replay", ofOwnChannels(s.replayDelivery))

	open(http.MethodPost, "/v1/auth/login", s.login)
	open(http.MethodPost, "/v1/auth/refresh", s.refresh)
	open(http.MethodPost, "/v1/auth/logout", s.logout)
	urgent(account.Viewer, http.MethodPost, "/v1/auth/password", s.changePassword)
	viewer(http.MethodGet, "/v1/auth/me", ofUser(bare(s.me)))
	open(http.MethodGet, "/.well-known/jwks.json", s.jwks)
	admin(http.MethodGet, "/v1/api-keys", s.listKeys)
	admin(http.MethodPost, "/v1/api-keys", s.counted(s.createKey))
	admin(http.MethodPost, "/v1/api-keys/:id/rotate", s.counted(ofID(schema.KeyPrefix, "API key", s.rotateKey)))
	urgent(account.Admin, http.MethodDelete, "/v1/api-keys/:id", ofID(schema.KeyPrefix, "API key", s.revokeKey))
	owner(http.MethodGet, "/v1/users", s.listUsers)
	owner(http.MethodPost, "/v1/users", s.counted(s.createUser))
	urgent(account.Owner, http.MethodPatch, "/v1/users/:id", ofID(schema.UserPrefix, "user", s.changeUser))
	admin(http.MethodGet, "/v1/audit", s.listActs)

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
	return func(c *request) error {
		if err := c.params().err(); err != nil {
			return err
		}
		return h(c)
	}
}

// ofID gives h the id that the path has in the place of :id. One that cannot be an id of this kind is answered like
// one that does not exist.
func ofID(prefix schema.Prefix, what string, h func(c *request, id schema.ID) error) handler {
	return func(c *request) error {
		id, err := schema.ParseID(prefix, c.Param("id"))
		if err != nil {
			return notThere(what)
		}
		return h(c, id)
	}
}

func notThere(what string) error {
	return problem.New(problem.NotFound, "There is no such "+what+" in this account.")
}

func notFound(*request) error {
	return problem.New(problem.NotFound, "There is nothing at this address. The endpoints are described at /docs, and in /openapi.json for programs.")
}

func (s *Server) methodNotAllowed(c *request) error {
	methods := slices.Clone(s.methods[c.Request.URL.Path])
	if methods == nil {
		methods = strings.Split(c.Writer.Header().Get("Allow"), ", ")
	}
	if c.Request.URL.Path == "/v1/events" {
		methods = append(methods, http.MethodPost) // Ingest answers it.
	}
	slices.Sort(methods)
	allow := strings.Join(methods, ", ")
	c.Header("Allow", allow)
	return problem.New(problem.MethodNotAllowed, "This address takes other methods: "+allow+".")
}

// openapi answers the OpenAPI document.
func (s *Server) openapi(c *request) error {
	c.Header("Cache-Control", "public, max-age=300")
	c.Data(http.StatusOK, "application/json", s.document)
	return nil
}

// storeError makes of an error of the store what a client may see.
func storeError(err error, what string) error {
	switch {
	case errors.Is(err, usage.ErrNotFound), errors.Is(err, account.ErrNotFound), errors.Is(err, job.ErrNotFound),
		errors.Is(err, report.ErrNotFound), errors.Is(err, tariff.ErrNotFound):
		return notThere(what)
	case errors.Is(err, usage.ErrTooManyRows):
		return problem.FromFaults([]fault{{Field: "from", Message: "gives more than 10000 rows: narrow from and to, group by less, filter, or send fill=false"}})
	case errors.Is(err, usage.ErrTimeout):
		return &problem.Problem{
			Code: problem.Internal, RetryAfter: 5 * time.Second,
			Detail: "The question took too long to answer. Narrow from and to, or ask again later.",
		}
	}
	return err
}
