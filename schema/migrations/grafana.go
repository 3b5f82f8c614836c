package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrGrafanaPassword is returned for a password that clients could spell in more than one way.
var ErrGrafanaPassword = errors.New("the password of outlay_grafana must be of printable ASCII characters")

const hasGrafanaRole = `select exists (select from pg_roles where rolname = 'outlay_grafana')`

// applyGrafanaRole makes the role that reads the views of schema report and nothing else, and lets it sign in when there is
// a password. A user who may not is told what to run; all the rest works without the role.
func applyGrafanaRole(ctx context.Context, conn *pgx.Conn, opt Options) error {
	err := makeGrafanaRole(ctx, conn)
	if err == nil && opt.GrafanaPassword != "" {
		err = setGrafanaPassword(ctx, conn, opt.GrafanaPassword)
	}
	if hasCode(err, insufficientPrivilege) {
		opt.Log.WarnContext(ctx, "this user may not make or change roles, and Grafana needs one: have it run, then migrate again",
			"run", "CREATE ROLE outlay_grafana LOGIN PASSWORD '...'", "error", err)
		err = nil
	}
	if err != nil {
		return err
	}
	return grantToGrafana(ctx, conn)
}

const createGrafanaRole = `
create role outlay_grafana nologin;
alter role outlay_grafana set default_transaction_read_only = on;
alter role outlay_grafana set statement_timeout = '30s'`

// makeGrafanaRole creates the role where it is not there. Roles belong to the whole server: a migration of another of its
// databases may make it at this moment, which is just as well.
func makeGrafanaRole(ctx context.Context, conn *pgx.Conn) error {
	there, err := grafanaRoleExists(ctx, conn)
	if err != nil || there {
		return err
	}
	_, err = conn.Exec(ctx, createGrafanaRole)
	if err != nil && !hasCode(err, duplicateObject, uniqueViolation) {
		return fmt.Errorf("create role outlay_grafana: %w", err)
	}
	return nil
}

func grafanaRoleExists(ctx context.Context, conn *pgx.Conn) (there bool, err error) {
	if err := conn.QueryRow(ctx, hasGrafanaRole).Scan(&there); err != nil {
		return false, fmt.Errorf("look for role outlay_grafana: %w", err)
	}
	return there, nil
}

// passwordTries is how often a change of the role is tried while other databases of the server change it too.
const passwordTries = 5

// setGrafanaPassword sends a verifier in place of the password, so that no log of the server can show it. A verifier has
// no character that would need quoting.
func setGrafanaPassword(ctx context.Context, conn *pgx.Conn, password string) error {
	verifier, err := scramVerifier(password)
	if err != nil {
		return err
	}
	alterGrafanaRole := `alter role outlay_grafana login password '` + verifier + `'`
	for range passwordTries {
		_, err = conn.Exec(ctx, alterGrafanaRole)
		if !hasCode(err, internalError) { // "tuple concurrently updated"
			break
		}
	}
	if err != nil {
		return fmt.Errorf("set the password of outlay_grafana: %w", err)
	}
	return nil
}

const grantReport = `
grant usage on schema report to outlay_grafana;
grant select on all tables in schema report to outlay_grafana`

func grantToGrafana(ctx context.Context, conn *pgx.Conn) error {
	there, err := grafanaRoleExists(ctx, conn)
	if err != nil || !there {
		return err
	}
	if _, err := conn.Exec(ctx, grantReport); err != nil {
		return fmt.Errorf("grant schema report to outlay_grafana: %w", err)
	}
	return nil
}
