package migrations

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrRolePassword is returned for a password that clients could spell in more than one way.
var ErrRolePassword = errors.New("the password of a database role must be of printable ASCII characters")

// role is one that a program signs in with. It may do what grants.sql says and nothing else.
type role struct {
	name string
	// settings are made where the role is.
	settings string
	password string
	// member is whether the owner is to be a member of the role.
	member bool
}

func (o Options) roles() []role {
	return []role{
		{name: "outlay_ingest", password: o.IngestPassword},
		{name: "outlay_processor", password: o.ProcessorPassword},
		{name: "outlay_query", password: o.QueryPassword, member: true}, // A query tier that signs in as the owner takes the role on.
		{name: "outlay_grafana", password: o.GrafanaPassword, settings: `;
alter role outlay_grafana set default_transaction_read_only = on;
alter role outlay_grafana set statement_timeout = '30s'`},
	}
}

// applyRoles makes the roles and lets those sign in that have a password. For a user who may not, the error says what to run; all the
// rest works without the roles, as long as every program signs in as the owner.
func applyRoles(ctx context.Context, conn *pgx.Conn, opt Options) error {
	for _, r := range opt.roles() {
		err := r.make(ctx, conn)
		if err == nil && r.password != "" {
			err = r.setPassword(ctx, conn)
		}
		if hasCode(err, insufficientPrivilege) {
			opt.Log.WarnContext(ctx, "this user may not make or change roles: have it run as a superuser, then migrate again",
				"run", "CREATE ROLE "+r.name+" LOGIN PASSWORD '...'", "error", err)
			err = nil
		}
		if err == nil && r.member {
			err = r.addOwner(ctx, conn, opt)
		}
		if err != nil {
			return err
		}
	}
	return grantToRoles(ctx, conn)
}

const roleExists = `select exists (select from pg_roles where rolname = $1)`

// make creates the role where it is not there. Roles belong to the whole server: a migration of another of its databases may
// make it at this moment, which is just as well.
func (r role) make(ctx context.Context, conn *pgx.Conn) error {
	var there bool
	if err := conn.QueryRow(ctx, roleExists, r.name).Scan(&there); err != nil {
		return fmt.Errorf("look for role %s: %w", r.name, err)
	}
	if there {
		return nil
	}
	_, err := conn.Exec(ctx, `create role `+r.name+` nologin`+r.settings)
	if err != nil && !hasCode(err, duplicateObject, uniqueViolation) {
		return fmt.Errorf("create role %s: %w", r.name, err)
	}
	return nil
}

const isMember = `select coalesce((select pg_has_role(current_user, oid, 'member') from pg_roles where rolname = $1), true)`

// addOwner makes the user a member of the role, where it is there.
func (r role) addOwner(ctx context.Context, conn *pgx.Conn, opt Options) error {
	var member bool
	if err := conn.QueryRow(ctx, isMember, r.name).Scan(&member); err != nil {
		return fmt.Errorf("look for members of role %s: %w", r.name, err)
	}
	if member {
		return nil
	}
	_, err := conn.Exec(ctx, `grant `+r.name+` to current_user`)
	if hasCode(err, insufficientPrivilege) {
		opt.Log.WarnContext(ctx, "this user is no member of a role and may not make itself one: have it run as a superuser, then migrate again",
			"run", "GRANT "+r.name+" TO "+conn.Config().User, "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("become a member of role %s: %w", r.name, err)
	}
	return nil
}

// passwordTries is how often a change of a role is tried while other databases of the server change it too.
const passwordTries = 5

// setPassword sends a verifier in place of the password, so that no log of the server can show it. A verifier has no
// character that would need quoting.
func (r role) setPassword(ctx context.Context, conn *pgx.Conn) error {
	verifier, err := scramVerifier(r.password)
	if err != nil {
		return err
	}
	alterRole := `alter role ` + r.name + ` login password '` + verifier + `'`
	for range passwordTries {
		_, err = conn.Exec(ctx, alterRole)
		if !hasCode(err, internalError) { // "tuple concurrently updated"
			break
		}
	}
	if err != nil {
		return fmt.Errorf("set the password of %s: %w", r.name, err)
	}
	return nil
}

// grants are given again by each Up, so that they cover tables that are new. They leave out roles that are not there.
//
//go:embed grants.sql
var grants string

func grantToRoles(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, grants); err != nil {
		return fmt.Errorf("grant to the roles: %w", err)
	}
	return nil
}
