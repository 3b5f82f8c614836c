package migrations_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// From nothing, Up makes the whole schema for what the server can do, and Status says so before and after.
func TestUpFromNothing(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		before, err := migrations.Status(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		if before.Current != 0 || before.Latest == 0 || before.Pending[0] != "001_schema_settings.sql" || before.Edition != "" {
			t.Errorf("Status before Up = %+v, want no migration applied and all pending", before)
		}
		up(t, conn, migrations.Options{})
		after, err := migrations.Status(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		want := migrations.State{Current: before.Latest, Latest: before.Latest, Edition: db.Edition, Server: after.Server}
		if diff := cmp.Diff(want, after); diff != "" {
			t.Errorf("Status after Up (-want +got):\n%s", diff)
		}
		if after.Server.Edition != db.Edition || after.Server.PostgresVersion == "" {
			t.Errorf("Server = %+v, want edition %s with its version", after.Server, db.Edition)
		}
		if hasTimescale := after.Server.TimescaleVersion != ""; hasTimescale != (db.Edition != migrations.Plain) {
			t.Errorf("TimescaleVersion = %q in edition %s", after.Server.TimescaleVersion, db.Edition)
		}
	})
}

// A second Up finds nothing to do: not even a job is made anew.
func TestUpIsIdempotent(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		opt := migrations.Options{RawRetention: 90 * day, GrafanaPassword: schematest.GrafanaPassword}
		up(t, conn, opt)
		want, wantJobs := catalog(t, conn, db.Edition), jobIDs(t, conn, db.Edition)
		up(t, conn, opt)
		if diff := cmp.Diff(want, catalog(t, conn, db.Edition)); diff != "" {
			t.Errorf("the second Up changed the schema:\n%s", diff)
		}
		if diff := cmp.Diff(wantJobs, jobIDs(t, conn, db.Edition)); diff != "" {
			t.Errorf("the second Up made jobs anew:\n%s", diff)
		}
	})
}

func jobIDs(t *testing.T, conn *pgx.Conn, e migrations.Edition) []int32 {
	t.Helper()
	if e != migrations.Community {
		return nil
	}
	return column[int32](t, conn, `select job_id from timescaledb_information.jobs order by 1`)
}

// Several Ups at once all succeed, and what they leave is what one leaves.
func TestConcurrentUps(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, db *schematest.DB) {
		var g errgroup.Group
		for range 4 {
			g.Go(func() error {
				conn, err := pgx.Connect(t.Context(), db.URL)
				if err != nil {
					return err
				}
				defer conn.Close(t.Context())
				return migrations.Up(t.Context(), conn, migrations.Options{Log: quiet})
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		alone := connect(t, schematest.DatabaseOf(t, db.Edition))
		if diff := cmp.Diff(catalog(t, alone, db.Edition), catalog(t, connect(t, db), db.Edition)); diff != "" {
			t.Errorf("one Up (-) and four at once (+) differ:\n%s", diff)
		}
	})
}

// An Up that cannot have the lock gives up in time, and says who holds it.
func TestUpNamesWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	db := schematest.Empty(t, migrations.Plain)
	holder, conn := connect(t, db), connect(t, db)
	exec(t, holder, `set application_name = 'slow migration'`)
	exec(t, holder, `select pg_advisory_lock($1)`, migrations.MigrateLock)

	var log bytes.Buffer
	opt := migrations.Options{LockTimeout: time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))}
	err := migrations.Up(t.Context(), conn, opt)
	if !errors.Is(err, migrations.ErrLocked) || !strings.Contains(err.Error(), "slow migration") {
		t.Errorf("Up = %v, want ErrLocked that names the holder", err)
	}
	if !strings.Contains(log.String(), "slow migration") {
		t.Errorf("log = %q, want the holder's name", log.String())
	}
	exec(t, holder, `select pg_advisory_unlock_all()`)
	up(t, conn, migrations.Options{})
}

// A schema is not run on a server that can do less than it was made for.
func TestUpRefusesAServerThatLostItsEdition(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.DatabaseOf(t, migrations.Plain))
	exec(t, conn, `update schema_settings set edition = 'community'`)
	err := migrations.Up(t.Context(), conn, migrations.Options{Log: quiet})
	if !errors.Is(err, migrations.ErrEditionLost) {
		t.Errorf("Up = %v, want ErrEditionLost", err)
	}
}

// A schema made for less stays what it is on a server that can do more.
func TestUpKeepsTheEditionOfTheFirst(t *testing.T) {
	t.Parallel()
	db := schematest.Empty(t, migrations.Community)
	conn := connect(t, db)
	exec(t, conn, `create extension timescaledb`)
	if err := migrations.MigrateTo(t.Context(), conn, migrations.Plain, 1); err != nil {
		t.Fatal(err)
	}
	up(t, conn, migrations.Options{})
	state, err := migrations.Status(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	if state.Edition != migrations.Plain || state.Server.Edition != migrations.Community || len(state.Pending) > 0 {
		t.Errorf("Status = %+v, want a plain schema on a community server, up to date", state)
	}
	if n := one[int](t, conn, `select count(*) from timescaledb_information.hypertables`); n != 0 {
		t.Errorf("a plain schema has %d hypertables", n)
	}
}

// A schema that a newer program migrated is left alone.
func TestUpRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.DatabaseOf(t, migrations.Plain))
	exec(t, conn, `update schema_version set version = 9999`)
	err := migrations.Up(t.Context(), conn, migrations.Options{Log: quiet})
	if !errors.Is(err, migrations.ErrNewerSchema) {
		t.Errorf("Up = %v, want ErrNewerSchema", err)
	}
}

// A role that owns its database and may do nothing else is enough; what it may not do is left out and said.
func TestUpWithoutPrivileges(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, db *schematest.DB) {
		admin := connect(t, db)
		exec(t, admin, makeOwner)
		exec(t, admin, `alter database `+one[string](t, admin, `select current_database()`)+` owner to outlay_test_owner`)

		owner := connect(t, db)
		exec(t, owner, `set session authorization outlay_test_owner`)
		var log bytes.Buffer
		opt := migrations.Options{GrafanaPassword: schematest.GrafanaPassword, RawRetention: 90 * day, Log: slog.New(slog.NewTextHandler(&log, nil))}
		if err := migrations.Up(t.Context(), owner, opt); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "CREATE ROLE outlay_grafana") {
			t.Errorf("log = %s, want what to run for the role", log.String())
		}
		want, err := migrations.Detect(t.Context(), admin)
		if err != nil {
			t.Fatal(err)
		}
		if want.Edition != db.Edition {
			t.Errorf("edition = %s, want %s", want.Edition, db.Edition)
		}
	})
}

const makeOwner = `
do $$
begin
    create role outlay_test_owner login;
exception when duplicate_object or unique_violation then
    null;
end
$$`
