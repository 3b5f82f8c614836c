package query

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/secret"
	"github.com/outlayhq/outlay/schema/webhook"
)

// Config is what a Server needs. Pool and Keys have to be set; every other field
// has a default.
type Config struct {
	// Pool leads to the database. It is owned by the caller, who closes it after
	// the last request.
	Pool *pgxpool.Pool
	// Keys sign and check the tokens.
	Keys *auth.Keys
	// Secrets encrypt the secrets of alert channels. Defaults to keeping them as they are.
	Secrets *secret.Keys
	// PublicURL is where people reach the server, such as "https://outlay.example.com";
	// share links start with it. Defaults to nothing: links are then paths.
	PublicURL string
	// Issuer is the iss claim of the tokens. Defaults to "outlay". Tokens of
	// another issuer are refused, so it is the same on every replica.
	Issuer string
	// IdentityProviders are those whose tokens are accepted beside our own. Defaults to
	// none.
	IdentityProviders []auth.Provider
	// Prices returns the published prices, which are shown where an account has none of
	// its own. Defaults to those of the binary; has to be what ingest charges by.
	Prices func() *price.Book
	// EventsPerMinute returns how many events an account of a plan may send in a minute;
	// what ingest allows. Defaults to 0, which stands for not known.
	EventsPerMinute func(account.Plan) int64
	// Limits bound what one account may ask. Defaults to DefaultLimits.
	Limits Limits
	// TokenLifetime is how long an access token lasts. Defaults to 1 h.
	TokenLifetime time.Duration
	// SignInLifetime is how long a sign-in lasts, however often it is refreshed.
	// Defaults to 30 days.
	SignInLifetime time.Duration
	// StatementTimeout bounds every statement. Defaults to 10 s.
	StatementTimeout time.Duration
	// ConcurrentSignIns is how many passwords are checked at once, 19 MiB of
	// memory each. Defaults to the number of processors.
	ConcurrentSignIns int
	// TrustedProxies are the addresses or CIDR ranges whose X-Forwarded-For is
	// believed. Defaults to none: the peer's address is the client's.
	TrustedProxies []string
	// Mail reports whether the processors have a mail server. Defaults to false: channels and schedules that send e-mail are refused.
	Mail bool
	// Webhooks is what the operator permits of the addresses of webhooks. It was validated, and is that of the processors.
	Webhooks webhook.Config
	// Resolver looks up the hosts of webhooks that are given. Defaults to net.DefaultResolver.
	Resolver webhook.Resolver
	// Now returns the time. Defaults to time.Now.
	Now func() time.Time
	// Log gets what operators should see. Defaults to slog.Default.
	Log *slog.Logger
	// Metrics takes the server's metrics. Defaults to a registry nobody reads.
	Metrics prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	c.Issuer = cmp.Or(c.Issuer, "outlay")
	c.TokenLifetime = cmp.Or(c.TokenLifetime, time.Hour)
	c.SignInLifetime = cmp.Or(c.SignInLifetime, 30*24*time.Hour)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, 10*time.Second)
	c.ConcurrentSignIns = cmp.Or(c.ConcurrentSignIns, runtime.GOMAXPROCS(0))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.EventsPerMinute == nil {
		c.EventsPerMinute = func(account.Plan) int64 { return 0 }
	}
	c.Limits = cmp.Or(c.Limits, DefaultLimits())
	if c.Prices == nil {
		c.Prices = price.Default
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	return c
}

// validPublicURL reports whether links can be made by adding a path to text.
func validPublicURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == ""
}

// validate names the first setting that cannot be. It is called after withDefaults.
func (c Config) validate() error {
	switch {
	case c.Pool == nil:
		return errors.New("query: Pool is not set")
	case c.Keys == nil:
		return errors.New("query: Keys is not set")
	case c.TokenLifetime < time.Minute:
		return errors.New("query: TokenLifetime is shorter than a minute")
	case c.PublicURL != "" && !validPublicURL(c.PublicURL):
		return errors.New("query: --public-url must be an address such as https://outlay.example.com")
	case c.SignInLifetime < c.TokenLifetime:
		return errors.New("query: SignInLifetime is shorter than TokenLifetime")
	case c.StatementTimeout < time.Millisecond:
		return errors.New("query: StatementTimeout is shorter than a millisecond")
	}
	return c.Limits.Validate()
}
