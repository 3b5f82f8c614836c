package migrations

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// State is how far a database's schema is.
type State struct {
	// Current is the number of migrations applied, Latest that of all there are. Current is greater when a newer program
	// has migrated the database.
	Current, Latest int32
	// Edition is what the schema was made for; empty before the first Up. The server may offer more.
	Edition Edition
	Server  Server
	// Pending are the names of the migrations that Up would apply, in their order.
	Pending []string
}

// Status reads the state of a database's schema and changes nothing.
func Status(ctx context.Context, conn *pgx.Conn) (State, error) {
	var s State
	var err error
	if s.Server, err = Detect(ctx, conn); err != nil {
		return State{}, err
	}
	if s.Edition, err = editionKept(ctx, conn); err != nil {
		return State{}, err
	}
	if s.Current, err = currentVersion(ctx, conn); err != nil {
		return State{}, err
	}
	m, err := newMigrator(ctx, nil, s.Server.Edition)
	if err != nil {
		return State{}, err
	}
	s.Latest = int32(len(m.Migrations))
	for _, migration := range m.Migrations[min(s.Current, s.Latest):] {
		if !strings.HasSuffix(migration.Name, unusedSuffix) {
			s.Pending = append(s.Pending, migration.Name)
		}
	}
	return s, nil
}

// latestVersion is the number of migrations there are, the same for every edition.
var latestVersion = sync.OnceValues(func() (int32, error) {
	m, err := newMigrator(context.Background(), nil, Plain)
	if err != nil {
		return 0, err
	}
	return int32(len(m.Migrations)), nil
})

// UpToDate reports whether Up of this program, or of a newer one, has made the schema. It costs little and needs no more rights
// than a tier has, to be asked again and again.
func UpToDate(ctx context.Context, conn *pgx.Conn) (bool, error) {
	want, err := latestVersion()
	if err != nil {
		return false, err
	}
	is, err := currentVersion(ctx, conn)
	return is >= want, err
}

const hasVersion = `select to_regclass('` + versionTable + `') is not null`

const selectVersion = `select coalesce(max(version), 0) from ` + versionTable

// currentVersion returns the number of the last migration applied, 0 before the first.
func currentVersion(ctx context.Context, conn *pgx.Conn) (int32, error) {
	var made bool
	if err := conn.QueryRow(ctx, hasVersion).Scan(&made); err != nil {
		return 0, fmt.Errorf("look for the schema version: %w", err)
	}
	if !made {
		return 0, nil
	}
	var version int32
	if err := conn.QueryRow(ctx, selectVersion).Scan(&version); err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return version, nil
}
