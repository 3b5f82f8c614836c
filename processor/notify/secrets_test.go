package notify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/secret"
)

func secretKeys(t *testing.T, keys ...string) *secret.Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(strings.Join(keys, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := secret.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// storedSecrets is all that the database has of the secrets.
func (w *world) storedSecrets() string {
	w.t.Helper()
	var text string
	if err := w.db.Pool.QueryRow(w.t.Context(), `SELECT string_agg(secret, E'\n') FROM alert_secrets`).Scan(&text); err != nil {
		w.t.Fatal(err)
	}
	return text
}

// Secrets are encrypted in the database, and signatures are good all the same. A
// processor without the key tries again, so that nothing is lost until it has it.
func TestSecretsAreEncrypted(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	w := newWorld(t, db, mail.DefaultConfig())
	keys := secretKeys(t, strings.Repeat("ab", 32))
	w.store = w.store.Sealing(keys)
	r := newReceiver(t, 200)
	rule := w.rule(w.account, r.webhook())
	w.rule(w.account, alert.Channel{Type: alert.Slack, Address: "https://hooks.slack.example/services/T/B/hidden"})
	r.secret = rule.Channels[0].Secret
	if stored := w.storedSecrets(); strings.Contains(stored, "whsec_") || strings.Contains(stored, "hidden") || strings.Count(stored, keys.Prefix()) != 2 {
		t.Errorf("the database has %s", stored)
	}
	id := w.notify(rule, firing("1"))
	w.step()
	d := w.delivery(w.account, id)
	if d.State != alert.Pending || len(d.Tries) != 1 || d.Tries[0].Outcome != "no_secrets_key" || len(r.all()) > 0 {
		t.Fatalf("without the key: %+v", d)
	}
	w.notifier.secrets = keys
	w.clock.set(d.NextTryAt)
	w.step()
	if d := w.delivery(w.account, id); d.State != alert.Delivered || len(r.all()) != 1 {
		t.Errorf("with the key: %+v", d)
	}
}

// What was kept before there was a key, or with an older one, is encrypted with the
// first key of the file.
func TestSecretsMoveToTheFirstKey(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	w := newWorld(t, db, mail.DefaultConfig())
	older, newer := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	r := newReceiver(t, 200)
	rule := w.rule(w.account, r.webhook())
	r.secret = rule.Channels[0].Secret
	w.store = w.store.Sealing(secretKeys(t, older))
	w.rule(w.account, r.webhook())
	w.notifier.secrets = secretKeys(t, newer, older)
	if err := w.notifier.reseal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stored := w.storedSecrets(); strings.Count(stored, w.notifier.secrets.Prefix()) != 2 {
		t.Errorf("the database has %s", stored)
	}
	w.notifier.secrets = secretKeys(t, newer)
	w.notify(rule, firing("1"))
	w.step()
	if len(r.all()) != 1 {
		t.Error("the webhook was not called with the newer key alone")
	}
}
