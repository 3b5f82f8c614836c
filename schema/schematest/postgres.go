package schematest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outlayhq/outlay/deploy/postgres"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest/local"
	"github.com/outlayhq/outlay/schema/schematest/need"
)

// Editions lists the editions that tests can have here, the least first.
func Editions() []migrations.Edition {
	all := []migrations.Edition{migrations.Plain, migrations.Apache, migrations.Community}
	given := slices.DeleteFunc(slices.Clone(all), func(e migrations.Edition) bool { return os.Getenv(local.PostgresVar(e)) == "" })
	if len(given) > 0 {
		return given
	}
	return postgres.Editions(context.Background())
}

// GrafanaPassword is the password of the role outlay_grafana in every test that sets one: the role is one for the whole server, and
// a test that signs in would fail if another set another password just before. It has what is easily quoted wrongly.
const GrafanaPassword = "Gr4fana's \\ \"secret\""

// TierPassword is the password of the roles outlay_ingest, outlay_processor and outlay_query on the servers of the tests.
const TierPassword = "tier-secret"

// server is a PostgreSQL that many tests share.
type server struct {
	edition migrations.Edition
	url     string // Of a database that nobody uses for anything else.

	templateOnce sync.Once
	templateName string
	templateErr  error
}

// servers are those that this process uses, by edition.
var servers sync.Map

// serverOf returns the server of an edition, and starts it when there is none. An edition that is not installed is
// an error that wraps postgres.ErrNotInstalled.
func serverOf(e migrations.Edition) (*server, error) {
	start, _ := servers.LoadOrStore(e, sync.OnceValues(func() (*server, error) { return newServer(e) }))
	return start.(func() (*server, error))()
}

func newServer(e migrations.Edition) (*server, error) {
	if url := os.Getenv(local.PostgresVar(e)); url != "" {
		return &server{edition: e, url: url}, nil
	}
	if !slices.Contains(Editions(), e) {
		return nil, fmt.Errorf("PostgreSQL of edition %s: %w", e, postgres.ErrNotInstalled)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := local.Postgres(ctx, e) // It ends with this process.
	if err != nil {
		return nil, err
	}
	return &server{edition: e, url: s.URL()}, nil
}

// serverFor returns the server of an edition for a test, or ends the test.
func serverFor(t testing.TB, e migrations.Edition) *server {
	t.Helper()
	s, err := serverOf(e)
	switch {
	case errors.Is(err, postgres.ErrNotInstalled) && e != migrations.Plain:
		t.Skip(err)
	case errors.Is(err, postgres.ErrNotInstalled):
		need.Missing(t, err)
	case err != nil:
		t.Fatal(err)
	}
	return s
}

// StartPostgres starts a server for one test, which may kill it and start it again in the same directory. It is durable and
// runs its jobs unless the settings say otherwise. The directory defaults to one that is removed with the test.
func StartPostgres(t testing.TB, cfg postgres.Config) *postgres.Server {
	t.Helper()
	if len(postgres.Editions(t.Context())) == 0 {
		need.Missing(t, fmt.Errorf("PostgreSQL: %w", postgres.ErrNotInstalled))
	}
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	s, err := postgres.Start(t.Context(), cfg)
	if errors.Is(err, postgres.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = s.Stop(ctx) // The test may have stopped or killed it, and what it stored is thrown away.
	})
	return s
}
