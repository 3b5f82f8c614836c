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
