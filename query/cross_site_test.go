package query_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/query"
)

// foreign asks as a page of another site can make a browser ask: with every cookie there may be, and no Authorization.
func (w *world) foreign(method, path, contentType, body string) *answer {
	w.t.Helper()
	headers := []string{
		"Origin", "https://evil.example", "Referer", "https://evil.example/", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors",
		"Cookie", "token=" + w.alice.token + "; Authorization=Bearer " + w.alice.token + "; session=" + w.alice.token,
	}
	if contentType != "" {
		headers = append(headers, "Content-Type", contentType)
	}
	answer := w.ask(method, path, body, headers...)
	for name := range answer.header {
		if strings.HasPrefix(name, "Access-Control-") || name == "Set-Cookie" {
			w.t.Errorf("%s has the header %s", answer.what, name)
		}
	}
	return answer
}

// A page of another site that somebody has open who is signed in cannot do anything in that person's name, nor read
// anything: cookies count for nothing, forms are not understood, and no answer lets it in.
func TestPagesOfOtherSitesDoNothing(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, database(t), func(c *query.Config) { c.Now = sameQuarter() })
	alices := w.alice.ids("alices")
	before := w.contents()
	for _, e := range endpoints() {
		path := e.at(alices) + e.query
		if e.role != "" {
			for _, contentType := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json", ""} {
				w.foreign(e.method, path, contentType, e.body).refused(http.StatusUnauthorized)
			}
			continue
		}
		if e.method == http.MethodPost {
			for _, contentType := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
				w.foreign(e.method, path, contentType, e.body).refused(http.StatusUnsupportedMediaType)
			}
		}
		// Before anything but a simple request a browser asks whether it may.
		if got := w.ask(http.MethodOptions, path, "", "Origin", "https://evil.example", "Access-Control-Request-Method", e.method,
			"Access-Control-Request-Headers", "authorization,content-type"); got.status < 400 || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s = %d, allowed %q", got.what, got.status, got.header.Get("Access-Control-Allow-Origin"))
		}
	}
	if diff := cmp.Diff(before, w.contents()); diff != "" {
		t.Errorf("the database changed (-before +after):\n%s", diff)
	}
}

// A link or an image is a GET: none changes anything, whoever follows it. The one that shares a session does, and needs
// a token in Authorization, which no link has.
func TestGetChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, database(t), func(c *query.Config) { c.Now = sameQuarter() })
	alices := w.alice.ids("alices")
	w.store(w.alice.step("ses_unshared", 0, nil))
	before := w.contents()
	for _, e := range endpoints() {
		// Opening a link is counted.
		if e.method != http.MethodGet || strings.HasSuffix(e.path, "/share") || strings.HasSuffix(e.path, "/share/{token}") {
			continue
		}
		if got := w.alice.get(e.at(alices) + e.query); got.status != http.StatusOK && e.path != "/v1/account/budget" {
			t.Errorf("%s = %d", got.what, got.status)
		}
	}
	const share = "/v1/sessions/unshared/share"
	w.foreign(http.MethodGet, share, "", "").refused(http.StatusUnauthorized)
	if diff := cmp.Diff(before, w.contents()); diff != "" {
		t.Errorf("the database changed (-before +after):\n%s", diff)
	}
	w.alice.get(share).want(http.StatusOK)
	if cmp.Equal(before, w.contents()) {
		t.Error("sharing a session is not seen in the database: the comparison is worth nothing")
	}
}

// contents are a sum of the rows of each table.
func (w *world) contents() map[string]string {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), `SELECT c.oid::regclass::text,
			(xpath('/row/s/text()', query_to_xml('SELECT count(*) || ''/'' || coalesce(sum(hashtextextended(t::text, 0)), 0) AS s FROM ' || c.oid::regclass || ' t', false, true, '')))[1]::text
		FROM pg_class c WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	contents := map[string]string{}
	for rows.Next() {
		var table, sum string
		if err := rows.Scan(&table, &sum); err != nil {
			w.t.Fatal(err)
		}
		contents[table] = sum
	}
	if err := rows.Err(); err != nil || len(contents) < 10 {
		w.t.Fatalf("%d tables: %v", len(contents), err)
	}
	return contents
}
