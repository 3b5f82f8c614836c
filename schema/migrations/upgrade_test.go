package migrations_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// record writes down the first migrations as they are now, as a release to upgrade from. To be given once for each release:
// what is recorded is what holds its migrations to what they were.
var record = flag.Int("record", 0, "record the schema up to this migration under testdata/releases")

// A recorded release is testdata/releases/<number of its last migration>/<edition>.sql, with the rows.sql that a database of
// it held.
func releases(t *testing.T) []int32 {
	t.Helper()
	dirs, err := filepath.Glob("testdata/releases/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recorded releases: %v", err)
	}
	var versions []int32
	for _, dir := range dirs {
		v, err := strconv.ParseInt(filepath.Base(dir), 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, int32(v))
	}
	return versions
}

func recorded(version int32, name string) string {
	return filepath.Join("testdata", "releases", fmt.Sprint(version), name)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Migrations that were released read as they did, in every edition.
func TestReleasedMigrationsAreNotEdited(t *testing.T) {
	t.Parallel()
	for _, e := range []migrations.Edition{migrations.Plain, migrations.Apache, migrations.Community} {
		for _, version := range releases(t) {
			got, err := migrations.Render(t.Context(), e, version)
			if err != nil {
				t.Fatal(err)
			}
			path := recorded(version, string(e)+".sql")
			if *record == int(version) {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read(t, path), got); diff != "" {
				t.Errorf("migrations up to %d of %s changed after their release:\n%s", version, e, diff)
			}
		}
	}
}

// A database of any release, with rows in it, comes out of Up as a new one does, and the rows are still there.
func TestUpgradeFromEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range releases(t) {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			eachEmpty(t, func(t *testing.T, db *schematest.DB) {
				conn := connect(t, db)
				if db.Edition != migrations.Plain {
					exec(t, conn, `create extension timescaledb`)
				}
				exec(t, conn, read(t, recorded(version, string(db.Edition)+".sql")))
				exec(t, conn, `create table schema_version (version int4 not null)`)
				exec(t, conn, `insert into schema_version values ($1)`, version)
				exec(t, conn, read(t, recorded(version, "rows.sql")))
				tables := tableColumns(t, conn)
				before := rows(t, conn, tables)

				up(t, conn, migrations.Options{})
				fresh := connect(t, schematest.DatabaseOf(t, db.Edition))
				if diff := cmp.Diff(catalog(t, fresh, db.Edition), catalog(t, conn, db.Edition)); diff != "" {
					t.Errorf("a new database (-) and one upgraded from %d (+) differ:\n%s", version, diff)
				}
				if diff := cmp.Diff(before, rows(t, conn, tables)); diff != "" {
					t.Errorf("the upgrade changed rows:\n%s", diff)
				}
				checkUsage(t, conn)
			})
		})
	}
}

const selectTableColumns = `
select c.relname as name, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relname not like 'schema\_%'
group by c.relname`

// table is a table, and its columns as a list in SQL.
type table struct{ Name, Columns string }

// tableColumns returns the tables that hold what users have stored.
func tableColumns(t *testing.T, conn *pgx.Conn) []table {
	t.Helper()
	rows, _ := conn.Query(t.Context(), selectTableColumns)
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByName[table])
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// rows returns all rows of the tables as text.
func rows(t *testing.T, conn *pgx.Conn, tables []table) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, table := range tables {
		all[table.Name] = column[string](t, conn, fmt.Sprintf(`select row(%s)::text as line from %s order by 1`, table.Columns, table.Name))
	}
	return all
}

// Every migration goes through on a database that has rows already, not only on an empty one.
func TestMigrationsGoThroughOverRows(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		if db.Edition != migrations.Plain {
			exec(t, conn, `create extension timescaledb`)
		}
		if err := migrations.MigrateTo(t.Context(), conn, db.Edition, 6); err != nil {
			t.Fatal(err)
		}
		var events []testEvent
		for i := range 500 {
			at := time.Now().Add(-time.Duration(i) * time.Hour)
			events = append(events, testEvent{At: at, Account: i % 3, Agent: strings.Repeat("a", 1+i%5), Cost: int64(i)})
		}
		insert(t, conn, events...)
		up(t, conn, migrations.Options{})
		fresh := connect(t, schematest.DatabaseOf(t, db.Edition))
		if diff := cmp.Diff(catalog(t, fresh, db.Edition), catalog(t, conn, db.Edition)); diff != "" {
			t.Errorf("a new database (-) and a migrated one (+) differ:\n%s", diff)
		}
		checkUsage(t, conn)
	})
}
