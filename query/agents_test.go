package query_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

// shownAgent is what tests look at of an agent.
type shownAgent struct {
	Name string
	sums
	Sessions  int64
	Refused   int64      `json:"refused_events"`
	FirstSeen *time.Time `json:"first_seen"`
	LastSeen  *time.Time `json:"last_seen"`
	Models    []string
	ByModel   []struct {
		Model *string
		sums
	} `json:"by_model"`
	Daily []bucket
}

type agentPage struct {
	Data       []shownAgent
	NextCursor *string `json:"next_cursor"`
}

func (p *person) agents(query string) agentPage {
	p.t.Helper()
	var page agentPage
	p.get("/v1/agents"+query).decode(http.StatusOK, &page)
	return page
}

func (p agentPage) names() []string {
	names := []string{}
	for _, a := range p.Data {
		names = append(names, a.Name)
	}
	return names
}

// An agent's figures are those of its events between from and to, wherever days
// begin.
func TestAgentsAddUpToTheEvents(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		t.Logf("seed %d", seed)
		w := newWorld(t, pool)
		events := w.alice.randomEvents(rand.New(rand.NewPCG(seed, 0)), 500)
		w.store(events...)
		w.materialise()
		for _, span := range [][2]string{
			{"2025-10-20T07:30:00Z", "2025-11-05T13:15:00Z"},
			{"2025-10-20T00:00:00Z", "2025-10-25T00:00:00Z"},
			{"2025-11-02T05:45:00Z", "2025-11-02T06:15:00Z"},
			{"2025-11-01T23:00:00Z", "2025-11-02T01:00:00Z"},
		} {
			from, _ := time.Parse(time.RFC3339, span[0])
			to, _ := time.Parse(time.RFC3339, span[1])
			query := "?from=" + span[0] + "&to=" + span[1]
			want := map[string]total{}
			for i := range events {
				e := &events[i]
				if !e.Time.Before(from) && e.Time.Before(to) {
					sum, ok := want[e.Agent]
					if !ok {
						sum.Nano = "0"
					}
					sum.add(ofEvent(e))
					want[e.Agent] = sum
				}
			}
			got := map[string]total{}
			for _, a := range w.alice.agents(query).Data {
				a.CacheRead, a.MaxLatencyMS = 0, nil
				got[a.Name] = a.total(t)
				w.alice.checkAgent(a.Name, query, want[a.Name])
			}
			for name, sum := range want {
				sum.CacheRead, sum.MaxLatency = 0, 0
				want[name] = sum
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("GET /v1/agents%s (-events +answer):\n%s", query, diff)
			}
		}
	})
}

// checkAgent compares the parts of one agent with what it should add up to.
func (p *person) checkAgent(name, query string, want total) {
	p.t.Helper()
	var agent shownAgent
	p.get("/v1/agents/"+url.PathEscape(name)+query).decode(http.StatusOK, &agent)
	byModel, daily := total{Nano: "0"}, total{Nano: "0"}
	for _, m := range agent.ByModel {
		byModel.add(m.total(p.t))
	}
	for _, d := range agent.Daily {
		daily.add(d.total(p.t))
	}
	if diff := cmp.Diff(want, byModel); diff != "" {
		p.t.Errorf("%s%s: by_model (-events +answer):\n%s", name, query, diff)
	}
	if diff := cmp.Diff(want, daily); diff != "" {
		p.t.Errorf("%s%s: daily (-events +answer):\n%s", name, query, diff)
	}
}

// Sessions, first and last time and models are of the events asked about.
func TestAgentShowsSessionsTimesAndModels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	at := func(d time.Duration, session, model string) schema.Event {
		return w.alice.newEvent(func(e *schema.Event) { e.Time, e.SessionID, e.Model = w.now.Add(-d), session, model })
	}
	w.store(at(time.Hour, "ses_1", "x"), at(2*time.Hour, "ses_1", ""), at(3*time.Hour, "ses_2", "y"), at(40*24*time.Hour, "ses_3", "z"))
	const refuse = `INSERT INTO refused_events (account_id, agent, model, provider, bucket, events, input_tokens, output_tokens, cost_nano_usd)
		VALUES ($1, 'support-bot', $2, '', date_bin('15 min', $3, 'epoch'), 3, 0, 0, 0)`
	w.exec(refuse, w.alice.account, "a", w.now.Add(-time.Hour))
	w.exec(refuse, w.alice.account, "b", w.now.Add(-2*time.Hour))
	w.exec(refuse, w.alice.account, "a", w.now.Add(-99*24*time.Hour))
	w.exec(refuse, w.bob.account, "a", w.now.Add(-time.Hour))
	got := w.alice.agents("").Data[0]
	if got.Refused != 6 {
		t.Errorf("refused_events = %d, want 6", got.Refused)
	}
	if got.Sessions != 2 || !got.FirstSeen.Equal(w.now.Add(-3*time.Hour)) || !got.LastSeen.Equal(w.now.Add(-time.Hour)) {
		t.Errorf("sessions %d from %v to %v, want 2 from 3 h ago to 1 h ago", got.Sessions, got.FirstSeen, got.LastSeen)
	}
	if diff := cmp.Diff([]string{"x", "y"}, got.Models); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	var alone shownAgent
	if w.alice.get("/v1/agents/support-bot").decode(http.StatusOK, &alone); alone.Refused != 6 {
		t.Errorf("refused_events of the agent alone = %d, want 6", alone.Refused)
	}
	// Known, but silent in the time asked about.
	var silent shownAgent
	w.alice.get("/v1/agents/support-bot?from=2025-01-01&to=2025-01-02").decode(http.StatusOK, &silent)
	if silent.Events != 0 || silent.FirstSeen != nil || len(silent.Daily) != 1 {
		t.Errorf("an agent without events in the range = %+v, want zeros", silent)
	}
}

// A name may hold any character; a name nobody has is 404.
func TestAgentIsFoundByAnyName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	names := []string{"a/b", "a%2Fb", "..", ".", "a b+c", "ü☃🙂", "?x=1#y", "a\\b", "'; DROP TABLE events; --", "daily", ":name", "*", "a;b", "%"}
	for _, name := range names {
		w.store(w.alice.newEvent(func(e *schema.Event) { e.Agent = name }))
	}
	for _, name := range names {
		var got shownAgent
		// A client that cleans paths never gets to send "." and ".." as they are.
		escaped := url.PathEscape(name)
		if name == "." || name == ".." {
			escaped = map[string]string{".": "%2E", "..": "%2E%2E"}[name]
		}
		w.alice.get("/v1/agents/"+escaped).decode(http.StatusOK, &got)
		if got.Name != name || got.Events != 1 {
			t.Errorf("GET /v1/agents/%s = %q with %d events, want %q with 1", escaped, got.Name, got.Events, name)
		}
	}
	for _, unknown := range []string{"nobody", "%00", "%ff", "a"} {
		w.alice.get("/v1/agents/" + unknown).refused(http.StatusNotFound)
	}
	w.alice.get("/v1/agents/").refused(http.StatusNotFound)
}

// Each order is complete and stable over pages, also while events arrive.
func TestAgentsSortAndPage(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		for i, agent := range []string{"b", "a", "B", "c"} {
			var events []schema.Event
			for n := range i + 1 {
				events = append(events, w.alice.newEvent(func(e *schema.Event) {
					e.Agent = agent
					e.Time = w.now.Add(-time.Hour + time.Duration(i)*time.Second - time.Duration(n)*time.Hour)
					e.Cost = schema.NanoUSD(1000 / (i + 1) / (i + 1))
				}))
			}
			w.store(events...)
		}
		for query, want := range map[string][]string{
			"sort=cost_usd": {"b", "a", "B", "c"}, "": {"b", "a", "B", "c"}, "sort=cost_usd&order=asc": {"c", "B", "a", "b"},
			"sort=events": {"c", "B", "a", "b"}, "sort=events&order=asc": {"b", "a", "B", "c"},
			"sort=name": {"B", "a", "b", "c"}, "sort=name&order=desc": {"c", "b", "a", "B"},
			"sort=last_seen": {"c", "B", "a", "b"}, "sort=last_seen&order=asc": {"b", "a", "B", "c"},
			"q=B&sort=name": {"B", "b"},
		} {
			if diff := cmp.Diff(want, w.alice.agents("?"+query).names()); diff != "" {
				t.Errorf("GET /v1/agents?%s (-want +got):\n%s", query, diff)
			}
			var paged []string
			for next := ""; ; {
				page := w.alice.agents("?" + query + "&limit=1" + next)
				paged = append(paged, page.names()...)
				if page.NextCursor == nil {
					break
				}
				next = "&cursor=" + *page.NextCursor
				// A newcomer after the first page is in no page.
				w.store(w.alice.newEvent(func(e *schema.Event) { e.Agent, e.Time = fmt.Sprint("new", query), w.now.Add(time.Hour) }))
			}
			if diff := cmp.Diff(want, paged); diff != "" {
				t.Errorf("GET /v1/agents?%s by pages of one (-want +got):\n%s", query, diff)
			}
		}
	})
}

// A session counts where it overlaps the range, however long it lasts and however
// long ago it began.
func TestAgentsCountSessionsOfAnyLength(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		from, to := w.now.Add(-300*24*time.Hour).Truncate(24*time.Hour), w.now.Add(-299*24*time.Hour).Truncate(24*time.Hour)
		lengths := []time.Duration{
			0, time.Hour, 24*time.Hour - time.Microsecond, 24 * time.Hour, 7 * 24 * time.Hour, 8*24*time.Hour - time.Microsecond,
			8 * 24 * time.Hour, 64 * 24 * time.Hour, 512*24*time.Hour - time.Microsecond, 512 * 24 * time.Hour, 3000 * 24 * time.Hour,
		}
		at := func(session string, ts time.Time) schema.Event {
			return w.alice.newEvent(func(e *schema.Event) { e.SessionID, e.Time, e.Agent = session, ts, "walker" })
		}
		events := []schema.Event{at("ses_inside", from.Add(time.Hour))}
		for i, length := range lengths {
			// One that ends as the range begins, one that ended just before, one that begins
			// last in it, and one that begins behind it.
			for name, start := range map[string]time.Time{
				"touching": from.Add(-length), "before": from.Add(-length - time.Microsecond), "last": to.Add(-time.Microsecond), "behind": to,
			} {
				session := fmt.Sprintf("ses_%s_%d", name, i)
				events = append(events, at(session, start), at(session, start.Add(length)))
			}
		}
		w.store(events...)
		want := int64(1 + 2*len(lengths))
		span := "?from=" + from.Format(time.DateOnly) + "&to=" + to.Format(time.DateOnly)
		for range 2 {
			var list struct{ Data []struct{ Sessions int64 } }
			w.alice.get("/v1/agents"+span).decode(http.StatusOK, &list)
			var one struct{ Sessions int64 }
			w.alice.get("/v1/agents/walker"+span).decode(http.StatusOK, &one)
			if len(list.Data) != 1 || list.Data[0].Sessions != want || one.Sessions != want {
				t.Errorf("sessions = %+v in the list and %d alone, want %d", list.Data, one.Sessions, want)
			}
			w.exec(`SELECT fold_sessions(1000)`)
		}
	})
}
