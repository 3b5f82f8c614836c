package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema"
)

type shownShare struct {
	URL, Token      string
	CreatedAt       time.Time  `json:"created_at"`
	ExpiresAt       *time.Time `json:"expires_at"`
	IncludeMetadata bool       `json:"include_metadata"`
	Views           int64
}

func (p *person) share(session, query string) (s shownShare) {
	p.t.Helper()
	p.get("/v1/sessions/"+session+"/share"+query).decode(http.StatusOK, &s)
	return s
}

// A link is made once, shows the session to anybody without what is private, counts
// its views, and ends when it expires or is revoked.
func TestShareLink(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		const public = "https://outlay.example.com"
		w := newWorldWith(t, pool, func(c *query.Config) { c.PublicURL = public + "/" })
		private := func(e *schema.Event) {
			e.Metadata, e.UserID, e.Tags, e.IdempotencyKey = []byte(`{"secret":1}`), "secret-user", []string{"secret-tag"}, "secret-key"
		}
		w.store(w.alice.step("ses_a", 0, private), w.alice.step("ses_a", 1, private), w.bob.step("ses_a", 1, nil))

		first := w.alice.share("a", "")
		if len(first.Token) != 32 || first.URL != public+"/share/"+first.Token || first.Views != 0 || first.IncludeMetadata {
			t.Errorf("share = %+v", first)
		}
		if lasts := first.ExpiresAt.Sub(first.CreatedAt); lasts != 30*24*time.Hour {
			t.Errorf("the link lasts %v, want 30 days", lasts)
		}
		// The same link again, also for who asks for what it is; another one is not made beside it.
		for _, query := range []string{"", "?expires_in=2592000", "?include_metadata=false&expires_in=2592000"} {
			if diff := cmp.Diff(first, w.alice.share("ses_a", query)); diff != "" {
				t.Errorf("the link of the second time (-first +second):\n%s", diff)
			}
		}
		for _, query := range []string{"?expires_in=60", "?include_metadata=true", "?expires_in=0"} {
			if refusal := w.alice.get("/v1/sessions/a/share" + query).refused(http.StatusConflict); !strings.Contains(refusal.Detail, "DELETE /v1/sessions/ses_a/share") {
				t.Errorf("%s: %q does not name the way out", query, refusal.Detail)
			}
		}
		if other := w.bob.share("ses_a", ""); other.Token == first.Token {
			t.Error("two accounts have one link")
		}

		answer := w.send("", http.MethodGet, "/v1/share/"+first.Token, "")
		var shared shownTimeline
		answer.decode(http.StatusOK, &shared)
		if len(shared.Steps) != 2 || shared.CostUSD != "0.013" || strings.Contains(string(answer.body), "secret") {
			t.Errorf("shared session: %s", answer.body)
		}
		for name, want := range map[string]string{"X-Robots-Tag": "noindex, nofollow", "Cache-Control": "private, no-store", "Referrer-Policy": "no-referrer"} {
			if got := answer.header.Get(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
		if views := w.alice.share("a", "").Views; views != 1 {
			t.Errorf("views = %d, want 1", views)
		}

		w.send(w.alice.token, http.MethodDelete, "/v1/sessions/a/share", "").want(http.StatusNoContent)
		w.send("", http.MethodGet, "/v1/share/"+first.Token, "").refused(http.StatusNotFound)
		w.send(w.alice.token, http.MethodDelete, "/v1/sessions/a/share", "").refused(http.StatusNotFound)
		w.send(w.bob.token, http.MethodDelete, "/v1/sessions/nothing/share", "").refused(http.StatusNotFound)

		second := w.alice.share("a", "?include_metadata=true&expires_in=0")
		if second.Token == first.Token || second.ExpiresAt != nil || !second.IncludeMetadata {
			t.Errorf("after revoking: %+v", second)
		}
		w.send("", http.MethodGet, "/v1/share/"+second.Token, "").decode(http.StatusOK, &shared)
		if string(shared.Steps[0].Metadata) != `{"secret":1}` {
			t.Errorf("metadata that was included = %s", shared.Steps[0].Metadata)
		}

		w.exec(`UPDATE session_shares SET created_at = now() - interval '2 s', expires_at = now() - interval '1 s' WHERE revoked_at IS NULL AND account_id = $1`, w.alice.account)
		w.send("", http.MethodGet, "/v1/share/"+second.Token, "").refused(http.StatusNotFound)
		if third := w.alice.share("a", ""); third.Token == second.Token {
			t.Error("an expired link came back")
		}
		for _, token := range []string{"x", strings.Repeat("A", 32), strings.Repeat("!", 32), w.alice.token} {
			w.send("", http.MethodGet, "/v1/share/"+token, "").refused(http.StatusNotFound)
		}
		var hashes int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM session_shares s WHERE s::text LIKE '%' || $1 || '%'`, first.Token).Scan(&hashes); err != nil || hashes != 0 {
			t.Errorf("%d rows hold a token (%v)", hashes, err)
		}
		for _, query := range []string{"expires_in=-1", "expires_in=x", "expires_in=999999999999", "include_metadata=1", "x=1"} {
			w.alice.get("/v1/sessions/a/share?" + query).refused(http.StatusUnprocessableEntity)
		}
	})
}

// Two who ask for a link at the same time get the same one.
func TestShareLinkIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.store(w.alice.step("ses_a", 0, nil))
	tokens := make(chan string, 8)
	for range cap(tokens) {
		go func() {
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/sessions/a/share", nil)
			request.Header.Set("Authorization", "Bearer "+w.alice.token)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				tokens <- err.Error()
				return
			}
			defer response.Body.Close()
			var share shownShare
			_ = json.NewDecoder(response.Body).Decode(&share)
			tokens <- fmt.Sprint(response.StatusCode, share.Token)
		}()
	}
	first := <-tokens
	for range cap(tokens) - 1 {
		if next := <-tokens; next != first || !strings.HasPrefix(next, "200") {
			t.Errorf("one got %s, another %s", first, next)
		}
	}
}

// The page of a link shows the steps to people, safely whatever their names are.
func TestSharePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	const attack = `<script>alert(1)</script>`
	first := w.alice.step("ses_a", 0, func(e *schema.Event) { e.Agent, e.Step, e.UserID = attack, "plan & think", "secret-user" })
	second := w.alice.step("ses_a", 65, func(e *schema.Event) {
		e.Agent, e.Parent, e.Status, e.ErrorType, e.Metadata = "helper", first.ID, schema.StatusError, attack, []byte(`{"x":"`+attack+`"}`)
	})
	w.store(first, second)
	link := w.alice.share("a", "?include_metadata=true")
	answer := w.send("", http.MethodGet, "/share/"+link.Token, "")
	answer.want(http.StatusOK)
	page := string(answer.body)
	for _, want := range []string{"plan &amp; think", "helper", "&lt;script&gt;", "$0.013", "1 min 5 s", "depth1", "noindex"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, outside := range []string{"<script", "style=", "http:", "https:", "secret-user"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
	if policy := answer.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("Content-Security-Policy = %q", policy)
	}
	short := w.send("", http.MethodGet, "/share/"+link.Token+"?limit=1", "")
	short.want(http.StatusOK)
	if !strings.Contains(string(short.body), `href="?cursor=`) {
		t.Error("a short page does not lead to the next")
	}
	w.send("", http.MethodGet, "/share/"+strings.Repeat("A", 32), "").refused(http.StatusNotFound)
	w.send("", http.MethodGet, "/share/style.css", "").want(http.StatusOK)
	if views := w.alice.share("a", "").Views; views != 2 {
		t.Errorf("views = %d, want 2", views)
	}
}

// A browser is told in a page that a link is dead, anybody else in a problem; both are 404.
func TestDeadLinkIsAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.store(w.alice.newEvent(nil))
	link := w.alice.share("one", "")
	w.alice.remove("/v1/sessions/one/share").want(http.StatusNoContent)
	for path, status := range map[string]int{
		"/share/" + link.Token: http.StatusNotFound, "/share/x": http.StatusNotFound, "/share/" + link.Token + "?limit=0": http.StatusUnprocessableEntity,
	} {
		answer := w.ask(http.MethodGet, path, "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
		answer.want(status)
		page := string(answer.body)
		if kind := answer.header.Get("Content-Type"); kind != "text/html; charset=utf-8" || !strings.Contains(page, "<h1>") || strings.Contains(page, "support-bot") {
			t.Errorf("%s: %s %s", path, kind, page)
		}
		for name, want := range map[string]string{"X-Robots-Tag": "noindex, nofollow", "Cache-Control": "private, no-store", "Referrer-Policy": "no-referrer"} {
			if got := answer.header.Get(name); got != want {
				t.Errorf("%s: %s = %q, want %q", path, name, got, want)
			}
		}
		w.send("", http.MethodGet, path, "").refused(status)
	}
}

// A step without a price says so, to people and to programs: it did not cost nothing.
func TestSharedStepWithoutAPrice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.store(w.alice.newEvent(func(e *schema.Event) { e.Cost, e.Source = 0, schema.CostUnpriced }))
	link := w.alice.share("one", "")
	page := string(w.send("", http.MethodGet, "/share/"+link.Token, "").body)
	if !strings.Contains(page, ">unpriced<") || strings.Contains(page, `data-label="Cost">$0`) {
		t.Errorf("the page does not say that the step is unpriced: %s", page)
	}
	var shared struct {
		Steps []struct {
			CostSource string `json:"cost_source"`
		}
	}
	w.send("", http.MethodGet, "/v1/share/"+link.Token, "").decode(http.StatusOK, &shared)
	if len(shared.Steps) != 1 || shared.Steps[0].CostSource != "unpriced" {
		t.Errorf("steps = %+v", shared.Steps)
	}
}
