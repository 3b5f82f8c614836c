package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// Limits bound what the users and the API keys of one account may ask together, so that one script cannot take the
// database away from the other accounts. Every replica counts its own.
type Limits struct {
	Free       int64 `name:"reads-free" default:"600" help:"Requests a minute that each replica of the query tier answers an account with the plan free."`
	Pro        int64 `name:"reads-pro" default:"6000" help:"Requests a minute that each replica of the query tier answers an account with the plan pro."`
	Enterprise int64 `name:"reads-enterprise" default:"60000" help:"Requests a minute that each replica of the query tier answers an account with the plan enterprise."`
	// AtOnce is how many requests of one account are answered at the same time. Others wait for their turn.
	AtOnce int `name:"reads-at-once" default:"4" help:"Requests of one account that each replica of the query tier answers at the same time; more wait for their turn."`
	// Creations is how many API keys, users, rules, reports and the like an account may make in a minute.
	Creations int64 `name:"creations" default:"60" help:"API keys, users, rules, prices and reports that an account may make in a minute, on each replica."`
}

// DefaultLimits returns the defaults that the flags have.
func DefaultLimits() Limits {
	return Limits{Free: 600, Pro: 6_000, Enterprise: 60_000, AtOnce: 4, Creations: 60}
}

// Validate returns an error that names the flag to mend.
func (l Limits) Validate() error {
	for _, f := range []struct {
		flag  string
		value int64
	}{
		{"--reads-free", l.Free}, {"--reads-pro", l.Pro}, {"--reads-enterprise", l.Enterprise}, {"--reads-at-once", int64(l.AtOnce)}, {"--creations", l.Creations},
	} {
		if f.value < 1 || f.value > math.MaxInt32 {
			return fmt.Errorf("%s must be between 1 and %d", f.flag, math.MaxInt32)
		}
	}
	return nil
}

// of returns the requests a minute of a plan. A plan that this version does not know gets the smallest.
func (l Limits) of(p account.Plan) int64 {
	switch p {
	case account.Enterprise:
		return l.Enterprise
	case account.Pro:
		return l.Pro
	case account.Free:
	}
	return l.Free
}

// How long a request waits for its turn, how many of an account wait at most for each that is answered, and how many exports
// of an account run at once: they hold a connection for as long as the client reads.
const (
	turnTimeout    = 5 * time.Second
	waitersPerTurn = 16
	exportsAtOnce  = 2
)

// The limits that a request can meet, as the metric names them.
const (
	limitReads     = "reads"
	limitCreations = "creations"
	limitAtOnce    = "at_once"
)

// sender is who counts as one: the users of an account, or its API keys. A key in the wrong hands must not keep the owner
// from ending it.
func sender(c *rest.Request) string {
	if c.Who.UserID.IsZero() {
		return string(c.Who.AccountID[:]) + "keys"
	}
	return string(c.Who.AccountID[:])
}

// countRead counts a request against what the plan of its account allows in this minute.
func (s *Server) countRead(c *rest.Request) error { return s.count(c, sender(c)) }

// countUrgent counts a request that ends a misuse: each user by itself.
func (s *Server) countUrgent(c *rest.Request) error {
	return s.count(c, string(c.Who.AccountID[:])+string(c.Who.UserID[:]))
}

// count sets the headers of the limit on every response, refused or not, so that clients can slow down before.
func (s *Server) count(c *rest.Request, name string) error {
	state := s.reads.take(name, s.limits.of(c.Who.Plan))
	setRateHeaders(c.Writer.Header(), &state)
	if state.wait == 0 {
		return nil
	}
	return s.limited(limitReads, state.wait, fmt.Sprintf(
		"The plan of the account allows %d requests a minute besides tracking. Ask again after the seconds in Retry-After.", state.limit))
}

// limited counts a refusal and returns it. A refused request was counted as well, which changes nothing: the minute ends
// at the same time.
func (s *Server) limited(limit string, wait time.Duration, detail string) error {
	s.metrics.limited.WithLabelValues(limit).Inc()
	return &problem.Problem{Code: problem.RateLimited, RetryAfter: wait, Detail: detail}
}

// counted lets h make something only as often as an account may in a minute.
func (s *Server) counted(h handler) handler {
	return func(c *rest.Request) error {
		state := s.creations.take(string(c.Who.AccountID[:]), s.limits.Creations)
		setRateHeaders(c.Writer.Header(), &state)
		if state.wait == 0 {
			return h(c)
		}
		return s.limited(limitCreations, state.wait, fmt.Sprintf(
			"An account makes at most %d keys, users, rules, prices and reports a minute. Send the request again after the seconds in Retry-After.", state.limit))
	}
}

// setRateHeaders spells the names as they are documented, which Header.Set would not do.
func setRateHeaders(h http.Header, s *rateState) {
	h["X-RateLimit-Limit"] = []string{strconv.FormatInt(s.limit, 10)}
	h["X-RateLimit-Remaining"] = []string{strconv.FormatInt(s.remaining, 10)}
	h["X-RateLimit-Reset"] = []string{strconv.FormatInt(s.reset.Unix(), 10)}
}

// inTurn lets h answer when there are few enough other requests of the same account.
func (s *Server) inTurn(t *turns, h handler) handler {
	return func(c *rest.Request) error {
		leave, err := t.enter(c.Ctx(), sender(c))
		if errors.Is(err, errNoTurn) {
			return s.limited(limitAtOnce, time.Second, fmt.Sprintf(
				"More than %d requests of this account are being answered. Wait for some of them, and ask again.", t.atOnce))
		}
		if err != nil {
			return err
		}
		defer leave()
		return h(c)
	}
}

// errNoTurn is answered 429: the account's own requests are in the way, nobody else's.
var errNoTurn = errors.New("too many requests at once")

// turns bound how many requests of each sender are answered at once. It is safe for concurrent use.
type turns struct {
	atOnce int

	mu      sync.Mutex
	senders map[string]*turn
}

// A turn is there while a sender has requests.
type turn struct {
	taken chan struct{}
	// users are the requests that are answered or wait.
	users int
}

// newTurns returns turns that let atOnce requests of each sender through.
func newTurns(atOnce int) *turns { return &turns{atOnce: atOnce, senders: map[string]*turn{}} }

// enter waits for a turn of the sender, and returns what ends it. The error is errNoTurn or that of ctx.
func (t *turns) enter(ctx context.Context, name string) (leave func(), err error) {
	mine, err := t.join(name)
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(turnTimeout)
	defer timeout.Stop()
	select {
	// A free place is taken at once; waiting requests get theirs in the order in which they came.
	case mine.taken <- struct{}{}:
		return func() {
			<-mine.taken
			t.part(name)
		}, nil
	case <-timeout.C:
		err = errNoTurn
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.part(name)
	return nil, err
}

// join counts a request of the sender, unless too many wait.
func (t *turns) join(name string) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.senders[name]
	if mine == nil {
		mine = &turn{taken: make(chan struct{}, t.atOnce)}
		t.senders[name] = mine
	}
	// Those that wait hold memory and a connection of the client, so they are bounded as well.
	if mine.users >= t.atOnce*(1+waitersPerTurn) {
		return nil, errNoTurn
	}
	mine.users++
	return mine, nil
}

// part forgets a request of the sender.
func (t *turns) part(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.senders[name]
	if mine.users--; mine.users == 0 {
		delete(t.senders, name)
	}
}
