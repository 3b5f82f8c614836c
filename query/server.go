// Package query is the last stage of the pipeline: it signs people in and answers
// over HTTP what their agents spent, from the tables that the processor fills. It
// promises exact sums, answers that agree with each other, and that nobody sees
// another account's data. SQL is in package usage, tokens in package auth.
package query

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/query/docs"
	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/share"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/openapi"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/secret"
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
	pool *pgxpool.Pool
	// sessions knows whether the user and the sign-in of a good token still stand.
	sessions  *auth.SessionState
	tokens    *auth.Tokens
	federated *auth.Federated
	verifier  *auth.Verifier
	keys      *auth.Keys
	apiKeys   *account.ReadKeys
	prices    func() *price.Book
	// document and docs are made once: they are the same for everybody.
	document []byte
	docs     []byte
	// channels decides about the addresses of channels and schedules.
	channels channelPolicy
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
	// sharePages holds the parsed templates.
	sharePages *share.Pages

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
	// The document and the pages are made here, so that an error in one of them keeps the program from starting.
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
	// What follows needs a part of s that is made above.
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
	if s.handler, err = rest.Compress(s.engine); err != nil {
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
	// One connection listens; the tables' triggers send the notices.
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

// openapi answers the OpenAPI document.
func (s *Server) openapi(c *rest.Request) error {
	c.Header("Cache-Control", "public, max-age=300")
	c.Data(http.StatusOK, "application/json", s.document)
	return nil
}
