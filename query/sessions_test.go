package query_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema"
)

// shownSession is what tests look at of a session.
type shownSession struct {
	ID           string
	Implicit     bool
	Agents       []string
	Events       int64
	Errors       int64
	InputTokens  int64       `json:"input_tokens"`
	OutputTokens int64       `json:"output_tokens"`
	CostUSD      json.Number `json:"cost_usd"`
	StartedAt    time.Time   `json:"started_at"`
	EndedAt      time.Time   `json:"ended_at"`
	DurationMS   int64       `json:"duration_ms"`
}

type sessionPage struct {
	Data       []shownSession
	NextCursor *string `json:"next_cursor"`
}

func (p *person) sessions(query string) sessionPage {
	p.t.Helper()
	var page sessionPage
	p.get("/v1/sessions"+query).decode(http.StatusOK, &page)
	return page
}

func (p sessionPage) ids() []string {
	ids := []string{}
	for _, s := range p.Data {
		ids = append(ids, s.ID)
	}
	return ids
}

type shownTimeline struct {
	shownSession
	Steps      []shownStep
	NextCursor *string `json:"next_cursor"`
}

type shownStep struct {
	EventID    string `json:"event_id"`
	Index      int64
	OffsetMS   int64           `json:"offset_ms"`
	Cumulative json.Number     `json:"cumulative_cost_usd"`
	Metadata   json.RawMessage `json:"metadata"`
}

// step returns an event of a session, some seconds after an hour ago.
func (p *person) step(session string, seconds int, change func(*schema.Event)) schema.Event {
	return p.newEvent(func(e *schema.Event) {
		e.SessionID = session
		e.Time = p.now.Add(-time.Hour + time.Duration(seconds)*time.Second)
		if change != nil {
			change(e)
		}
	})
}

// The list sums up each session; filters, orders and pages hold.
func TestSessionsList(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		w.store(
			w.alice.step("ses_a", 0, func(e *schema.Event) { e.Cost = 5 }),
			w.alice.step("ses_a", 2, func(e *schema.Event) { e.Agent, e.Status, e.Cost = "helper", schema.StatusError, 1 }),
			w.alice.step("ses_b", 1, func(e *schema.Event) { e.Cost, e.UserID = 100, "u-7" }),
			w.alice.step("ses_c", -100, func(e *schema.Event) { e.Cost = 1 }),
			w.alice.step("ses_c", 50, func(e *schema.Event) { e.Cost = 1 }),
			w.alice.step("ses_c", 51, func(e *schema.Event) { e.Cost = 1 }),
			w.alice.step("ses_implicit", 9, func(e *schema.Event) { e.SessionImplicit = true }),
			w.bob.step("ses_a", 5, nil),
		)
		want := shownSession{
			ID: "ses_a", Agents: []string{"helper", "support-bot"}, Events: 2, Errors: 1, InputTokens: 2400, OutputTokens: 700,
			CostUSD: "0.000000006", StartedAt: w.now.Add(-time.Hour), EndedAt: w.now.Add(-time.Hour + 2*time.Second), DurationMS: 2000,
		}
		if diff := cmp.Diff([]shownSession{want}, w.alice.sessions("?agent=helper").Data); diff != "" {
			t.Errorf("GET /v1/sessions?agent=helper (-want +got):\n%s", diff)
		}
		start := url.QueryEscape(w.now.Add(-time.Hour).Format(time.RFC3339))
		for query, want := range map[string][]string{
			"": {"ses_b", "ses_a", "ses_c"}, "order=asc": {"ses_c", "ses_a", "ses_b"},
			"sort=cost_usd": {"ses_b", "ses_a", "ses_c"}, "sort=events": {"ses_c", "ses_a", "ses_b"},
			"sort=ended_at": {"ses_c", "ses_a", "ses_b"}, "sort=duration_ms": {"ses_c", "ses_a", "ses_b"},
			"include_implicit=true": {"ses_implicit", "ses_b", "ses_a", "ses_c"}, "user_id=u-7": {"ses_b"},
			"q=ES_B": {"ses_b"}, "q=HELP": {"ses_a"}, "from=" + start: {"ses_b", "ses_a"}, "to=" + start: {"ses_c"}, "agent=nobody": {},
		} {
			if diff := cmp.Diff(want, w.alice.sessions("?"+query).ids()); diff != "" {
				t.Errorf("GET /v1/sessions?%s (-want +got):\n%s", query, diff)
			}
			paged := []string{}
			for next := ""; ; {
				page := w.alice.sessions("?limit=1&" + query + next)
				paged = append(paged, page.ids()...)
				if page.NextCursor == nil {
					break
				}
				next = "&cursor=" + *page.NextCursor
			}
			if diff := cmp.Diff(want, paged); diff != "" {
				t.Errorf("GET /v1/sessions?%s by pages of one (-want +got):\n%s", query, diff)
			}
		}
	})
}

// Whatever is folded when, the list is what the events add up to.
func TestSessionsAreExactWhileTheyAreFolded(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t, pool)
		want := map[string]shownSession{}
		for range 20 {
			var batch []schema.Event
			for range 1 + random.IntN(5) {
				batch = append(batch, w.alice.step(fmt.Sprint("ses_", random.IntN(4)), random.IntN(3000), func(e *schema.Event) {
					e.Agent, e.Cost = fmt.Sprint("agent-", random.IntN(3)), schema.NanoUSD(random.Int64N(1e12))
					if random.IntN(2) == 0 {
						e.Status, e.UserID = schema.StatusError, fmt.Sprint("user-", random.IntN(3))
					}
				}))
			}
			w.store(batch...)
			addToSessions(want, batch)
			if random.IntN(3) == 0 {
				w.exec(`SELECT fold_sessions($1)`, 1+random.IntN(20))
			}
			for _, query := range []string{"", "?sort=cost_usd", "?sort=events&order=asc"} {
				got := map[string]shownSession{}
				for _, s := range w.alice.sessions(query).Data {
					got[s.ID] = s
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("GET /v1/sessions%s (-events +answer):\n%s", query, diff)
				}
			}
		}
		for id, s := range want {
			var timeline shownTimeline
			w.alice.get("/v1/sessions/"+id+"?limit=500").decode(http.StatusOK, &timeline)
			if diff := cmp.Diff(s, timeline.shownSession); diff != "" || int64(len(timeline.Steps)) != s.Events {
				t.Errorf("GET /v1/sessions/%s has %d steps (-events +answer):\n%s", id, len(timeline.Steps), diff)
			}
		}
	})
}

// addToSessions adds events to the sessions that they should add up to.
func addToSessions(sessions map[string]shownSession, events []schema.Event) {
	for i := range events {
		e := &events[i]
		s, known := sessions[e.SessionID]
		if !known {
			s = shownSession{ID: e.SessionID, StartedAt: e.Time, EndedAt: e.Time, CostUSD: "0"}
		}
		s.Events++
		if e.Status == schema.StatusError {
			s.Errors++
		}
		s.InputTokens += e.InputTokens
		s.OutputTokens += e.OutputTokens
		cost, err := schema.ParseUSD(s.CostUSD.String())
		if err != nil {
			panic(err)
		}
		s.CostUSD = json.Number((cost + e.Cost).String())
		if e.Time.Before(s.StartedAt) {
			s.StartedAt = e.Time
		}
		if e.Time.After(s.EndedAt) {
			s.EndedAt = e.Time
		}
		s.DurationMS = s.EndedAt.Sub(s.StartedAt).Milliseconds()
		if !slices.Contains(s.Agents, e.Agent) {
			s.Agents = append(slices.Clone(s.Agents), e.Agent)
			slices.Sort(s.Agents)
		}
		sessions[e.SessionID] = s
	}
}

// A client that named no session at first may go on with the one it was answered:
// the event that began it belongs to it.
func TestImplicitSessionThatIsGoneOnWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	first := w.alice.step("", 0, func(e *schema.Event) { e.SessionImplicit, e.SessionID = true, schema.ImplicitSessionID(e.ID) })
	shows := func(when string, events int64, queries ...string) {
		t.Helper()
		for _, query := range queries {
			page := w.alice.sessions(query)
			if len(page.Data) != 1 || page.Data[0].Events != events || !page.Data[0].StartedAt.Equal(first.Time) || page.Data[0].Implicit != (events == 1) {
				t.Errorf("%s: GET /v1/sessions%s = %+v, want one session of %d events", when, query, page.Data, events)
			}
		}
	}
	w.store(first)
	w.exec(`SELECT fold_sessions(10)`)
	shows("before it is named", 1, "?include_implicit=true")
	if got := w.alice.sessions("").Data; len(got) != 0 {
		t.Errorf("an implicit session is listed: %+v", got)
	}
	w.store(w.alice.step(first.SessionID, 60, nil))
	shows("named", 2, "", "?include_implicit=true", "?sort=events")
	w.exec(`SELECT fold_sessions(10)`)
	shows("named and folded", 2, "", "?include_implicit=true", "?sort=events")
	w.store(w.alice.step(first.SessionID, 90, nil))
	shows("gone on with", 3, "", "?include_implicit=true", "?sort=events")
	w.exec(`SELECT fold_sessions(10)`)
	shows("gone on with and folded", 3, "", "?include_implicit=true", "?sort=events")
	var timeline shownTimeline
	w.alice.get("/v1/sessions/"+first.SessionID).decode(http.StatusOK, &timeline)
	if timeline.Events != 3 || len(timeline.Steps) != 3 {
		t.Errorf("the timeline has %d of %d events, want 3", len(timeline.Steps), timeline.Events)
	}
}

// It may go on with it months later, whatever the id is made of: time, or an idempotency key.
func TestImplicitSessionThatIsGoneOnWithMuchLater(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		const day = 24 * time.Hour
		for name, id := range map[string]schema.ID{
			"without a key": schema.NewID(w.now.Add(-60 * day)), "with a key": schema.KeyedEventID(w.alice.account, "k"),
		} {
			first := w.alice.newEvent(func(e *schema.Event) {
				e.ID, e.Time, e.ReceivedAt = id, w.now.Add(-60*day), w.now.Add(-60*day)
				e.SessionImplicit, e.SessionID = true, schema.ImplicitSessionID(id)
			})
			next := w.alice.newEvent(func(e *schema.Event) { e.SessionID = first.SessionID })
			w.store(first)
			w.store(next)
			want := map[string]shownSession{}
			addToSessions(want, []schema.Event{first, next})
			for _, when := range []string{"before it is folded", "when it is folded"} {
				var got shownSession
				for _, s := range w.alice.sessions("").Data {
					if s.ID == first.SessionID {
						got = s
					}
				}
				if diff := cmp.Diff(want[first.SessionID], got); diff != "" {
					t.Errorf("%s, %s (-events +answer):\n%s", name, when, diff)
				}
				w.exec(`SELECT fold_sessions(10)`)
			}
		}
	})
}

// A timeline is in the order of time, then of acceptance; its pages count on from
// one another, whatever arrives meanwhile.
func TestSessionTimeline(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		var want []string
		var events []schema.Event
		for i := range 25 {
			// Five of each time: among them the order is that of acceptance.
			e := w.alice.step("ses_x y/z", i/5, func(e *schema.Event) { e.Cost = 1_000_000 })
			events = append(events, e)
			want = append(want, e.ID.Text(schema.EventPrefix))
		}
		w.store(events...)
		w.store(w.bob.step("ses_x y/z", 1, nil))

		var got []string
		query := "?limit=4"
		for page := 0; ; page++ {
			var timeline shownTimeline
			w.alice.get("/v1/sessions/x%20y%2Fz"+query).decode(http.StatusOK, &timeline)
			for _, step := range timeline.Steps {
				got = append(got, step.EventID)
				index := int64(len(got))
				shown := shownStep{step.EventID, step.Index, step.OffsetMS, step.Cumulative, step.Metadata}
				expected := shownStep{
					step.EventID, index, (index - 1) / 5 * 1000, json.Number(schema.NanoUSD(index * 1_000_000).String()), json.RawMessage("null"),
				}
				if diff := cmp.Diff(expected, shown); diff != "" {
					t.Fatalf("step %d (-want +got):\n%s", index, diff)
				}
			}
			if timeline.NextCursor == nil {
				break
			}
			query = "?limit=4&cursor=" + *timeline.NextCursor
			// A step after the end changes the session and nothing before it.
			late := w.alice.step("ses_x y/z", 100+page, func(e *schema.Event) { e.Cost = 1_000_000 })
			if page == 0 {
				w.store(late)
				want = append(want, late.ID.Text(schema.EventPrefix))
			}
			if page == 5 {
				break
			}
		}
		if diff := cmp.Diff(want[:len(got)], got); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		var whole shownTimeline
		w.alice.get("/v1/sessions/ses_x%20y%2Fz").decode(http.StatusOK, &whole)
		if whole.Events != 26 || len(whole.Steps) != 26 || whole.CostUSD != "0.026" || whole.Steps[25].Cumulative != "0.026" {
			t.Errorf("the whole session has %d events, %d steps, costs %s", whole.Events, len(whole.Steps), whole.CostUSD)
		}
		for _, id := range []string{"ses_nothing", "%00", strings.Repeat("x", 300), "ses_"} {
			w.alice.get("/v1/sessions/" + id).refused(http.StatusNotFound)
			w.alice.get("/v1/sessions/" + id + "/share").refused(http.StatusNotFound)
		}
	})
}

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
