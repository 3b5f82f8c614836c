package migrations_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Every change that ingest has to know of is told once for each transaction, and the stream of last_used_at is not.
func TestChangesOfAccountsAndKeysAreTold(t *testing.T) {
	t.Parallel()
	db := schematest.DatabaseOf(t, migrations.Plain)
	conn, listener := connect(t, db), connect(t, db)
	exec(t, listener, `listen outlay_changes`)

	const account, key = `'0193a000-0000-7000-8000-000000000001'`, `'0193a000-0000-7000-8000-000000000021'`
	for _, sql := range []string{
		`insert into accounts (id, name) values (` + account + `, 'Acme')`,
		`insert into api_keys (id, account_id, name, secret_sha256, hint) values (` + key + `, ` + account + `, '', sha256('x'), '')`,
		`update api_keys set last_used_at = now()`,
		`update accounts set plan = 'free'`,
		`update api_keys set scopes = '{read}'`,
		`update api_keys set revoked_at = now()`,
		`update api_keys set last_used_at = now()`,
		`delete from api_keys`,
		`notify outlay_changes, 'end'`,
	} {
		exec(t, conn, sql)
	}
	want := []string{"accounts", "api_keys", "accounts", "api_keys", "api_keys", "api_keys", "end"}
	var got []string
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(got) == 0 || got[len(got)-1] != "end" {
		n, err := listener.WaitForNotification(ctx)
		if err != nil {
			t.Fatalf("told %v, want %v: %v", got, want, err)
		}
		got = append(got, n.Payload)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}
