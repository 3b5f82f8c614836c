package migrations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

// Edition is what kind of database a schema was made for. It decides how the usage relations are kept, never their names.
type Edition string

const (
	// Community is TimescaleDB under its own licence: hypertables, continuous aggregates, columnstore and policies.
	Community Edition = "community"
	// Apache is TimescaleDB under the Apache licence: hypertables, and plain views for the usage relations.
	Apache Edition = "apache"
	// Plain is PostgreSQL without TimescaleDB: ordinary tables and plain views.
	Plain Edition = "plain"
)

// ErrEditionLost is returned when a schema needs more than its server offers now.
var ErrEditionLost = errors.New("the server no longer offers what this schema was made for")

// Server is what a database can do now, whatever its schema was made for.
type Server struct {
	Edition          Edition
	PostgresVersion  string // such as "15.18"
	TimescaleVersion string // such as "2.27.2"; empty without the extension
}

const detectServer = `
select split_part(current_setting('server_version'), ' ', 1),
       coalesce((select extversion from pg_extension where extname = 'timescaledb'), ''),
       case when exists (select from pg_extension where extname = 'timescaledb')
            then coalesce(current_setting('timescaledb.license', true), '') else '' end`

// Detect says what the database of conn can do. It changes nothing: an extension that Up would create first does not count.
func Detect(ctx context.Context, conn *pgx.Conn) (Server, error) {
	var s Server
	var license string
	err := conn.QueryRow(ctx, detectServer).Scan(&s.PostgresVersion, &s.TimescaleVersion, &license)
	if err != nil {
		return Server{}, fmt.Errorf("detect server: %w", err)
	}
	switch license {
	case "timescale":
		s.Edition = Community
	case "apache":
		s.Edition = Apache
	default: // No extension here, or a server started without its library.
		s.Edition = Plain
	}
	return s, nil
}

// agreeOnEdition returns what the server is and the edition that the schema has, or is to have when this is the first Up.
func agreeOnEdition(ctx context.Context, conn *pgx.Conn, log *slog.Logger) (Server, Edition, error) {
	kept, err := editionKept(ctx, conn)
	if err != nil {
		return Server{}, "", err
	}
	if kept == "" {
		if err := createExtension(ctx, conn, log); err != nil {
			return Server{}, "", err
		}
	}
	server, err := Detect(ctx, conn)
	if err != nil {
		return Server{}, "", err
	}
	switch {
	case kept == "":
		return server, server.Edition, nil
	case !server.Edition.covers(kept):
		return Server{}, "", fmt.Errorf("%w: it was made for %q and finds %q; check shared_preload_libraries and timescaledb.license",
			ErrEditionLost, kept, server.Edition)
	case server.Edition != kept:
		log.InfoContext(ctx, "schema keeps the edition it was made for", "edition", kept, "server", server.Edition)
	}
	return server, kept, nil
}

const hasSettings = `select to_regclass('public.schema_settings') is not null`

const selectEdition = `select edition from schema_settings`

// editionKept returns the edition that the schema was made for, or "" where there is no schema yet.
func editionKept(ctx context.Context, conn *pgx.Conn) (Edition, error) {
	var made bool
	if err := conn.QueryRow(ctx, hasSettings).Scan(&made); err != nil {
		return "", fmt.Errorf("look for the schema: %w", err)
	}
	if !made {
		return "", nil
	}
	var kept Edition
	if err := conn.QueryRow(ctx, selectEdition).Scan(&kept); err != nil {
		return "", fmt.Errorf("read the schema's edition: %w", err)
	}
	return kept, nil
}

// covers reports whether a server of edition e can run a schema that was made for want.
func (e Edition) covers(want Edition) bool {
	switch want {
	case Plain:
		return true
	case Apache:
		return e == Apache || e == Community
	default:
		return e == Community
	}
}
