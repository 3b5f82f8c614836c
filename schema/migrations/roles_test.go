package migrations_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Whoever gets hold of a tier's database login, by an injection or a leak, can do what the tier does and no more: each
// of these is tried and refused, on every edition.
func TestTierLoginsMayDoNoMoreThanTheirTier(t *testing.T) {
	t.Parallel()
	everywhere := []string{
		`create table public.mine (n int)`, `create schema mine`, `create role mine`, `create extension dblink`,
		`alter role outlay_grafana superuser`, `alter table accounts disable row level security`, `drop table events`, `truncate events`,
		`update accounts set plan = 'enterprise'`, `update schema_settings set raw_retention = null`, `delete from schema_version`,
		`copy accounts to program 'id'`, `select pg_read_file('/etc/passwd')`, `select * from pg_authid`, `select rolpassword from pg_authid`,
		`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'outlay' and usesysid is not null and pid <> pg_backend_pid()`,
	}
	others := map[string][]string{
		"outlay_ingest": {
			`select password_hash from users`, `insert into events default values`, `select * from events`, `delete from event_keys`,
			`select secret from alert_secrets`, `select * from refresh_tokens`, `insert into api_keys default values`,
			`update api_keys set revoked_at = null`, `update budgets set limit_nano_usd = 1`, `update spend set cost_nano_usd = 0`,
			`select * from session_shares`, `select * from audit_log`, `select * from tenant.events`, `select * from report.events`,
			`select * from job_runners`, `select users_signing_in('x')`, `select account_of_refresh_token('x')`,
			`select key_that_reads('x')`,
		},
		"outlay_processor": {
			`select password_hash from users`, `update users set role = 'owner'`, `insert into users default values`, `select * from api_keys`,
			`update api_keys set revoked_at = null`, `insert into api_keys default values`, `insert into refresh_tokens default values`,
			`update refresh_tokens set revoked_at = null`, `insert into session_shares default values`, `insert into audit_log default values`,
			`update price_overrides set match = 'x'`, `select users_signing_in('x')`, `select key_that_reads('x')`, `select * from tenant.events`,
		},
		"outlay_query": {
			`select secret from alert_secrets`, `update alert_secrets set secret = 'x'`, `select * from public.events`,
			`delete from public.events`, `insert into public.events default values`, `update tenant.events set cost_nano_usd = 0`,
			`update public.spend set cost_nano_usd = 0`, `delete from audit_log`, `update audit_log set target = 'x'`,
			`select * from report.events`, `select * from job_runners`, `insert into accounts (id, name) values (gen_random_uuid(), 'x')`,
			`delete from users`, `alter policy tenant on users using (true)`,
		},
		"outlay_grafana": {},
	}
	roles := []string{"outlay_ingest", "outlay_processor", "outlay_query", "outlay_grafana", "outlay", "postgres", "pg_read_server_files"}
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		for login, statements := range others {
			if login == "outlay_grafana" {
				continue // TestGrafanaReadsTheReportsOnly is about it.
			}
			pool := schematest.As(t, db.Pool, login)
			if who := current(t, pool); who != login {
				t.Fatalf("signed in as %s, want %s", who, login)
			}
			for _, sql := range append(everywhere, statements...) {
				mustRefuse(t, pool, login, sql)
			}
			for _, role := range roles {
				if role != login && roleThere(t, db.Pool, role) {
					mustRefuse(t, pool, login, `set role `+role)
					mustRefuse(t, pool, login, `set session authorization `+role)
				}
			}
			// What a transaction takes on as its role, a statement in it may drop: it is the login again.
			if _, err := pool.Exec(t.Context(), `reset role; reset session authorization`); err != nil {
				t.Errorf("%s: reset role: %v", login, err)
			}
		}
	})
}

func current(t *testing.T, pool *pgxpool.Pool) (who string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `select session_user`).Scan(&who); err != nil {
		t.Fatal(err)
	}
	return who
}

func roleThere(t *testing.T, pool *pgxpool.Pool, role string) (there bool) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `select exists (select from pg_roles where rolname = $1)`, role).Scan(&there); err != nil {
		t.Fatal(err)
	}
	return there
}

// mustRefuse runs a statement in a transaction of its own that does not last, and wants it refused for lack of a right.
func mustRefuse(t *testing.T, pool *pgxpool.Pool, login, sql string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), sql)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != insufficientPrivilege {
		t.Errorf("%s: %s = %v, want SQLSTATE %s", login, sql, err, insufficientPrivilege)
	}
}

// What a role has in this database: on relations, columns, functions and schemas.
const selectGrants = `
select coalesce(string_agg(line, E'\n' order by line), '') from (
    select relnamespace::regnamespace || '.' || relname || ' ' || acl as line from pg_class, unnest(relacl) as acl
    union all select attrelid::regclass || '.' || attname || ' ' || acl from pg_attribute, unnest(attacl) as acl
    union all select oid::regprocedure || ' ' || acl from pg_proc, unnest(proacl) as acl
    union all select nspname || ' ' || acl from pg_namespace, unnest(nspacl) as acl
) as granted where line like '% ' || $1 || '=%'`

// A role that is made after the migrations ran, or lost what it had, gets all of it from the next Up.
func TestUpGrantsToRolesThatAreNew(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		up(t, conn, migrations.Options{})
		for _, role := range []string{"outlay_ingest", "outlay_processor", "outlay_query", "outlay_grafana"} {
			want := one[string](t, conn, selectGrants, role)
			if want == "" {
				t.Errorf("%s may do nothing", role)
			}
			exec(t, conn, `drop owned by `+role)
			if left := one[string](t, conn, selectGrants, role); left != "" {
				t.Fatalf("%s still has %s", role, left)
			}
			up(t, conn, migrations.Options{})
			if diff := cmp.Diff(want, one[string](t, conn, selectGrants, role)); diff != "" {
				t.Errorf("%s, what it had (-) and got again (+):\n%s", role, diff)
			}
		}
	})
}
