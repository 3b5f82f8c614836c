package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/deploy/postgres"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/schematest"
)

// secrets are texts that let in whoever has them, by what they are.
type secrets map[string]string

// add adds a secret; one that is missing would be found nowhere.
func (s secrets) add(t *testing.T, name, text string) {
	t.Helper()
	if len(text) < 12 {
		t.Fatalf("%s is %q", name, text)
	}
	s[name] = text
}

// in returns the names of the secrets that a text has, as they are or encoded.
func (s secrets) in(text []byte) (found []string) {
	for name, secret := range s {
		for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret))} {
			if bytes.Contains(text, []byte(form)) {
				found = append(found, name)
				break
			}
		}
	}
	return found
}

// Whoever gets a dump of the database, its files, those of the broker or the logs of a whole run gets nothing to sign
// in, to track, to open a link or to forge a message with.
func TestDumpAndLogsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	dir, databaseDir := t.TempDir(), t.TempDir()
	database := schematest.StartPostgres(t, postgres.Config{DataDir: databaseDir, Port: freePort(t).Port()})
	u := &upServer{dir: dir, listen: freeAddress(t), ops: freeAddress(t)}
	start := func() *running {
		t.Helper()
		u.process = launch(t, "up", append([]string{
			"up", "--log-level", "debug", "--data-dir", u.dir, "--database-url", database.URL(), "--listen", u.listen, "--ops-listen", u.ops,
		}, allowReceiver...)...)
		u.process.awaitReady(t, u.ops)
		return u.process
	}
	first := start()
	c := u.credentials(t)
	s := secrets{}
	s.add(t, "the owner's password", c.Password)
	s.add(t, "the first API key", c.APIKey)
	useSecrets(t, c, s)
	first.stop(t)
	second := start()
	useSecrets(t, c, s)
	second.stop(t)

	for name, file := range map[string]string{"the key of the tokens": "jwt-key.pem", "the key of the secrets": "secrets.key"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		s.add(t, name, lines[len(lines)/2])
	}
	dump := dumpTables(t, database.URL())
	// The first start shows the credentials once, outside the log.
	log := logLines(first.text(t)) + second.text(t)
	for what, text := range map[string]string{"the dump": dump, "the logs": log} {
		for _, name := range s.in([]byte(text)) {
			t.Errorf("%s has %s", what, name)
		}
	}
	// They are looked for where there is something.
	if !strings.Contains(dump, "secretive-agent") || !strings.Contains(dump, c.Email) || !strings.Contains(log, "level=") || !strings.Contains(log, "this processor checks the alert rules") {
		t.Errorf("a dump of %d bytes and logs of %d are not those of this run", len(dump), len(log))
	}
	s.scanFiles(t, databaseDir, nil)
	s.scanFiles(t, dir, map[string]bool{credentialsFile: true, "jwt-key.pem": true, "secrets.key": true})
}

// useSecrets makes one of each secret, uses it rightly and wrongly, and adds it to s.
func useSecrets(t *testing.T, c credentials, s secrets) {
	t.Helper()
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer failing.Close()
	at := fmt.Sprintf("%d", len(s)) // another name each time

	want := func(status, got int, what string) {
		t.Helper()
		if got != status {
			t.Fatalf("%s: status %d, want %d", what, got, status)
		}
	}
	var signedIn struct {
		Token        string
		RefreshToken string `json:"refresh_token"`
	}
	public := client{base: c.BaseURL}
	login := func(email, password string) int {
		return public.call(t, http.MethodPost, "/v1/auth/login", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password), &signedIn)
	}
	mistyped := "Mistyped-" + c.Password
	want(http.StatusUnauthorized, login(c.Email, mistyped), "a wrong password")
	want(http.StatusOK, login(c.Email, c.Password), "sign in")
	owner := client{c.BaseURL, signedIn.Token}
	s.add(t, "a token "+at, signedIn.Token)
	s.add(t, "a refresh token "+at, signedIn.RefreshToken)
	public.call(t, http.MethodPost, "/v1/auth/refresh", fmt.Sprintf(`{"refresh_token":%q}`, signedIn.RefreshToken), &signedIn)
	s.add(t, "a later refresh token "+at, signedIn.RefreshToken)

	password := "another password of " + at
	want(http.StatusCreated, owner.call(t, http.MethodPost, "/v1/users", fmt.Sprintf(`{"email":"user%s@example.com","password":%q,"role":"viewer"}`, at, password), &struct{}{}), "make a user")
	s.add(t, "a user's password "+at, password)

	var key struct{ ID, Key string }
	want(http.StatusCreated, owner.call(t, http.MethodPost, "/v1/api-keys", `{"name":"another"}`, &key), "make a key")
	s.add(t, "a key "+at, key.Key)
	tracked := `{"agent":"secretive-agent","session_id":"s` + at + `","cost_usd":0.1,"idempotency_key":"k` + at + `"}`
	want(http.StatusOK, client{c.BaseURL, key.Key}.call(t, http.MethodPost, "/v1/track", tracked, &struct{}{}), "track")
	unknown := account.NewSecret()
	s.add(t, "a key that is not known "+at, unknown)
	for _, bearer := range []string{unknown, signedIn.Token, key.Key[:len(key.Key)-1]} {
		want(http.StatusUnauthorized, client{c.BaseURL, bearer}.call(t, http.MethodPost, "/v1/track", tracked, &struct{}{}), "track with another's secret")
	}
	want(http.StatusUnauthorized, client{c.BaseURL, key.Key}.call(t, http.MethodGet, "/v1/users", "", &struct{}{}), "read with a key")

	var link struct{ Token string }
	awaitFor(t, "the session", time.Minute, func() bool {
		return owner.call(t, http.MethodGet, "/v1/sessions/s"+at+"/share", "", &link) == http.StatusOK
	})
	s.add(t, "a share token "+at, link.Token)
	want(http.StatusOK, public.call(t, http.MethodGet, "/v1/share/"+link.Token, "", &struct{}{}), "open the link")
	want(http.StatusNotFound, public.call(t, http.MethodGet, "/v1/share/"+link.Token[:len(link.Token)-1]+"!", "", &struct{}{}), "open another link")

	// One address answers 500, at the other nobody listens: the errors of both are kept and logged.
	hidden := "T000/B000/hidden-part-of-slack-" + at
	s.add(t, "an address of Slack "+at, hidden)
	var rule struct {
		ID       string
		Channels []struct{ Type, Secret string }
	}
	body := fmt.Sprintf(`{"name":"Spend","metric":"cost_usd","window":"5m","condition":{"type":"above","value":5},"channels":[{"type":"webhook","url":%q},{"type":"slack","url":%q},{"type":"slack","url":%q}]}`,
		failing.URL, failing.URL+"/services/"+hidden, "http://"+freeAddress(t)+"/services/"+hidden)
	want(http.StatusCreated, owner.call(t, http.MethodPost, "/v1/alerts", body, &rule), "make a rule")
	signing := rule.Channels[0].Secret
	s.add(t, "a signing secret "+at, strings.TrimPrefix(signing, "whsec_"))
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signing, "whsec_")); err == nil {
		s.add(t, "the bytes of a signing secret "+at, string(raw))
	}
	owner.call(t, http.MethodPost, "/v1/alerts/"+rule.ID+"/test", "", &struct{}{})
	awaitFor(t, "three deliveries to fail", time.Minute, func() bool {
		var deliveries struct {
			Data []struct{ Tries []struct{} }
		}
		owner.call(t, http.MethodGet, "/v1/alerts/"+rule.ID+"/deliveries", "", &deliveries)
		tried := 0
		for _, d := range deliveries.Data {
			if len(d.Tries) > 0 {
				tried++
			}
		}
		return tried >= 3
	})
	want(http.StatusNoContent, public.call(t, http.MethodPost, "/v1/auth/logout", fmt.Sprintf(`{"refresh_token":%q}`, signedIn.RefreshToken), &struct{}{}), "sign out")
}

// logLines are the lines of a process's output that its log has written.
func logLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, "level=") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// dumpTables returns every row of every table as COPY writes it.
func dumpTables(t *testing.T, url string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	const tables = `SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'm') AND NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema')`
	rows, _ := conn.Query(t.Context(), tables)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var dump bytes.Buffer
	for _, name := range names {
		if _, err := conn.PgConn().CopyTo(t.Context(), &dump, `COPY (SELECT * FROM `+name+`) TO STDOUT`); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return dump.String()
}

// scanFiles looks for the secrets in all files below dir but those that are made to hold them.
func (s secrets) scanFiles(t *testing.T, dir string, but map[string]bool) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || but[entry.Name()] {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // PostgreSQL is running.
			return nil
		}
		for _, name := range s.in(text) {
			t.Errorf("%s has %s", path, name)
		}
		files++
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files in %s: %v", files, dir, err)
	}
}
