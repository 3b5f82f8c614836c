package query_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/price"
)

type shownPrice struct {
	Provider string
	Model    string
	PriceID  string `json:"price_id"`
	Source   string
	Rates    []struct {
		Above     int64        `json:"above_input_tokens"`
		Input     *json.Number `json:"input_usd_per_mtok"`
		Output    *json.Number `json:"output_usd_per_mtok"`
		CacheRead *json.Number `json:"cache_read_usd_per_mtok"`
	}
}

type pricePage struct {
	At         time.Time
	Data       []shownPrice
	NextCursor *string `json:"next_cursor"`
}

func (p *person) prices(query string) pricePage {
	p.t.Helper()
	var page pricePage
	p.get("/v1/prices"+query).decode(http.StatusOK, &page)
	return page
}

// base is the first step of the one price that a question finds: id, input, output, cached.
func (p *person) base(query string) string {
	p.t.Helper()
	page := p.prices(query)
	if len(page.Data) == 0 {
		return "none"
	}
	step := page.Data[0].Rates[0]
	return fmt.Sprintf("%s %s %s %s %s", page.Data[0].Source, page.Data[0].PriceID, *step.Input, *step.Output, *step.CacheRead)
}

// A price is found under the names that clients send, as of a time.
func TestPriceLookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for query, want := range map[string]string{
		"?model=gpt-4o&at=2026-01-01":                "catalogue openai/gpt-4o 2.5 10 1.25",
		"?model=openai/GPT-4o&at=2026-01-01":         "catalogue openai/gpt-4o 2.5 10 1.25",
		"?model=gpt-4o&provider=azure&at=2026-01-01": "catalogue openai/gpt-4o 2.5 10 1.25",
		"?model=o3&at=2025-06-09T23:59:59Z":          "catalogue openai/o3 10 40 2.5",
		"?model=o3&at=2025-06-10":                    "catalogue openai/o3@2025-06-10 2 8 0.5",
		"?model=no-such-model":                       "none",
		"?model=no-such-model&provider=openai":       "none",
		"?provider=nobody":                           "none",
	} {
		if got := w.alice.base(query); got != want {
			t.Errorf("GET /v1/prices%s = %s, want %s", query, got, want)
		}
	}
	if at := w.alice.prices("?model=gpt-4o").At; time.Since(at) > time.Minute {
		t.Errorf("at = %v, want now", at)
	}
	for query, field := range map[string]string{"?at=soon": "at", "?at=1999-01-01": "at", "?limit=0": "limit", "?cursor=x": "cursor", "?q=x": "q", "?model=%00": "model"} {
		if refusal := w.alice.get("/v1/prices" + query).refused(http.StatusUnprocessableEntity); refusal.Errors[0].Field != field {
			t.Errorf("%s: %+v, want an error of %s", query, refusal, field)
		}
	}
}

// Paging shows every price of the book once, in order, as of the time of the first page.
func TestPricesArePaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var want, got []string
	for _, e := range price.Default().Entries("", at) {
		want = append(want, e.Provider+"/"+e.Model)
	}
	page := w.alice.prices("?at=2026-01-01&limit=499")
	for {
		for _, p := range page.Data {
			got = append(got, p.Provider+"/"+p.Model)
		}
		if page.NextCursor == nil {
			break
		}
		if page = w.alice.prices("?at=2026-01-01&limit=499&cursor=" + *page.NextCursor); !page.At.Equal(at) {
			t.Fatalf("a further page is of %v", page.At)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("prices (-book +pages):\n%s", diff)
	}
	w.alice.get("/v1/prices?provider=openai&cursor=" + *w.alice.prices("?at=2026-01-01").NextCursor).refused(http.StatusUnprocessableEntity)
}

// The published prices shown are those of the setting, not those of the binary.
func TestPricesOfTheOperator(t *testing.T) {
	t.Parallel()
	const catalogue = `{"version":1,"providers":[{"id":"acme","models":[{"id":"m","prices":[{"input":1,"output":2}]}]}]}`
	book, err := price.Parse([]byte(catalogue))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, database(t), func(c *query.Config) { c.Prices = func() *price.Book { return book } })
	if got := w.alice.prices(""); len(got.Data) != 1 || w.alice.base("") != "catalogue acme/m 1 2 1" {
		t.Errorf("prices = %+v", got)
	}
}

type shownOverride struct {
	ID        string
	Match     string
	Provider  *string
	Input     json.Number  `json:"input_usd_per_mtok"`
	CacheRead *json.Number `json:"cache_read_usd_per_mtok"`
	From      *time.Time
	CreatedBy string `json:"created_by"`
}

// An admin sets and removes prices, which come before the published ones, for the own
// account only; both acts are in the audit log.
func TestPriceOverrides(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var first, second shownOverride
	w.alice.post("/v1/prices/overrides", `{"match":" gpt-4o* ","provider":"OpenAI","input_usd_per_mtok":0,"output_usd_per_mtok":0.000001}`).decode(http.StatusCreated, &first)
	w.alice.post("/v1/prices/overrides", `{"match":"our model","input_usd_per_mtok":1.5,"output_usd_per_mtok":1000000,"cache_read_usd_per_mtok":0.1,"from":"2026-03-01"}`).decode(http.StatusCreated, &second)
	if first.Match != "gpt-4o*" || *first.Provider != "OpenAI" || first.Input != "0" || first.CacheRead != nil || first.From != nil ||
		first.CreatedBy != w.alice.user.ID.Text(schema.UserPrefix) {
		t.Errorf("created %+v", first)
	}
	if second.Provider != nil || second.Input != "1.5" || *second.CacheRead != "0.1" || !second.From.Equal(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("created %+v", second)
	}
	for query, want := range map[string]string{
		"?model=gpt-4o-mini":                         "override override/openai/gpt-4o* 0 0.000001 0",
		"?model=Our+Model&at=2026-03-01":             "override override/our model@2026-03-01 1.5 1000000 0.1",
		"?model=Our+Model&at=2026-02-28T23:59:59Z":   "none",
		"?model=our+model&provider=x&at=2026-03-01":  "override override/our model@2026-03-01 1.5 1000000 0.1",
		"?model=gpt-4o&provider=azure&at=2026-01-01": "catalogue openai/gpt-4o 2.5 10 1.25",
	} {
		if got := w.alice.base(query); got != want {
			t.Errorf("GET /v1/prices%s = %s, want %s", query, got, want)
		}
	}
	if got := w.bob.base("?model=gpt-4o-mini&at=2026-01-01"); !strings.HasPrefix(got, "catalogue") {
		t.Errorf("another account's price = %s", got)
	}
	w.alice.post("/v1/prices/overrides", `{"match":"our model","input_usd_per_mtok":9,"output_usd_per_mtok":9,"from":"2026-03-01T00:00:00Z"}`).refused(http.StatusConflict)
	w.bob.remove("/v1/prices/overrides/" + first.ID).refused(http.StatusNotFound)
	viewer := w.tokenFor(w.alice.colleague("carol@example.com", account.Viewer))
	w.send(viewer, http.MethodGet, "/v1/prices/overrides", "").want(http.StatusOK)
	w.send(viewer, http.MethodPost, "/v1/prices/overrides", `{}`).refused(http.StatusForbidden)
	w.send(viewer, http.MethodDelete, "/v1/prices/overrides/"+first.ID, "").refused(http.StatusForbidden)

	w.alice.remove("/v1/prices/overrides/" + first.ID).want(http.StatusNoContent)
	w.alice.remove("/v1/prices/overrides/" + first.ID).refused(http.StatusNotFound)
	w.alice.remove("/v1/prices/overrides/ovr_x").refused(http.StatusNotFound)
	var page struct{ Data []shownOverride }
	w.alice.get("/v1/prices/overrides").decode(http.StatusOK, &page)
	if len(page.Data) != 1 || page.Data[0].ID != second.ID {
		t.Errorf("GET /v1/prices/overrides = %+v", page)
	}
	var acts struct{ Data []shownAct }
	w.alice.get("/v1/audit").decode(http.StatusOK, &acts)
	var got []string
	for _, act := range acts.Data {
		got = append(got, act.Action+" "+act.Target)
	}
	want := []string{"price_override.delete " + first.ID, "price_override.create " + second.ID, "price_override.create " + first.ID}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
}

// A price that cannot be meant is refused with each field named.
func TestBadOverridesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for body, fields := range map[string]string{
		`{}`: "match input_usd_per_mtok output_usd_per_mtok",
		`{"match":" ","input_usd_per_mtok":-1,"output_usd_per_mtok":"1"}`:                             "input_usd_per_mtok output_usd_per_mtok match",
		`{"match":"m","input_usd_per_mtok":1e3,"output_usd_per_mtok":0.0000001}`:                      "input_usd_per_mtok output_usd_per_mtok",
		`{"match":"m","input_usd_per_mtok":1000001,"output_usd_per_mtok":null}`:                       "output_usd_per_mtok",
		`{"match":"m","input_usd_per_mtok":1,"output_usd_per_mtok":1,"cache_read_usd_per_mtok":true}`: "cache_read_usd_per_mtok",
		`{"match":"m","input_usd_per_mtok":1,"output_usd_per_mtok":1,"from":"soon"}`:                  "from",
		`{"match":"m","input_usd_per_mtok":1,"output_usd_per_mtok":1,"from":"1999-12-31"}`:            "from",
		`{"match":"m\u0000","provider":"p\u0001q","input_usd_per_mtok":1,"output_usd_per_mtok":1}`:    "match provider",
		`{"match":"m","input_usd_per_mtok":1,"output_usd_per_mtok":1,"input":1}`:                      "input",
	} {
		var got []string
		for _, fault := range w.alice.post("/v1/prices/overrides", body).refused(http.StatusUnprocessableEntity).Errors {
			got = append(got, fault.Field)
		}
		if strings.Join(got, " ") != fields {
			t.Errorf("%s: errors of %v, want %s", body, got, fields)
		}
	}
}

// An account cannot fill ingest's memory with prices.
func TestOverridesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.exec(`INSERT INTO price_overrides (override_id, account_id, match, input_pico_usd, output_pico_usd)
		SELECT gen_random_uuid(), $1, 'm' || n, 1, 1 FROM generate_series(1, 500) AS n`, w.alice.account)
	body := `{"match":"one more","input_usd_per_mtok":1,"output_usd_per_mtok":1}`
	w.alice.post("/v1/prices/overrides", body).refused(http.StatusConflict)
	w.bob.post("/v1/prices/overrides", body).want(http.StatusCreated)
}

type shownUnpriced struct {
	Provider, Model *string
	Events          int64
	Input           int64 `json:"input_tokens"`
	Output          int64 `json:"output_tokens"`
	Agents          []string
	LastSeen        time.Time `json:"last_seen"`
}

func (u shownUnpriced) String() string {
	return fmt.Sprintf("%s|%s %d %d %d %v %s", valueOf(u.Provider), valueOf(u.Model), u.Events, u.Input, u.Output, u.Agents, u.LastSeen.UTC().Format(time.RFC3339Nano))
}

func valueOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Whatever the range, the models without a price, their events and their tokens are those
// of the events themselves, also where calls of one model are priced and unpriced in the
// same quarter of an hour; paging shows each model once.
func TestUnpricedModels(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		t.Logf("seed %d", seed)
		w := newWorld(t, pool)
		events := w.alice.randomEvents(rand.New(rand.NewPCG(seed, 1)), 600)
		for i := range events {
			// One model is never priced, whatever else is known of it.
			if events[i].Model == "claude" && events[i].Provider == "openai" {
				events[i].Source, events[i].Cost = schema.CostUnpriced, 0
			}
		}
		w.store(events[:500]...)
		w.store(w.bob.randomEvents(rand.New(rand.NewPCG(seed, 2)), 50)...)
		w.materialise()
		w.store(events[500:]...)
		w.materialise()
		for _, span := range []string{
			"from=2025-10-01&to=2025-12-01", "from=2025-10-25T07:20:00Z&to=2025-11-06T00:00:01Z",
			"from=2025-11-02T05:30:00Z&to=2025-11-02T07:00:00Z", "from=2025-11-03&to=2025-11-04", "from=2024-01-01&to=2024-02-01",
		} {
			w.alice.checkUnpriced(span, events)
		}
	})
}

func (p *person) checkUnpriced(span string, events []schema.Event) {
	p.t.Helper()
	var got []string
	var page struct {
		From, To   time.Time
		Data       []shownUnpriced
		NextCursor *string `json:"next_cursor"`
	}
	for query := "?limit=3&" + span; query != ""; {
		page.NextCursor = nil
		p.get("/v1/prices/unpriced"+query).decode(http.StatusOK, &page)
		for _, m := range page.Data {
			got = append(got, m.String())
		}
		query = ""
		if page.NextCursor != nil {
			query = "?limit=3&" + span + "&cursor=" + *page.NextCursor
		}
	}
	models := map[string]*shownUnpriced{}
	for i := range events {
		e := &events[i]
		if e.Source != schema.CostUnpriced || e.Time.Before(page.From) || !e.Time.Before(page.To) {
			continue
		}
		m := models[e.Provider+"|"+e.Model]
		if m == nil {
			m = &shownUnpriced{Provider: &e.Provider, Model: &e.Model, LastSeen: e.Time}
			models[e.Provider+"|"+e.Model] = m
		}
		m.Events++
		m.Input += e.InputTokens
		m.Output += e.OutputTokens
		if !slices.Contains(m.Agents, e.Agent) {
			m.Agents = append(m.Agents, e.Agent)
			slices.Sort(m.Agents)
		}
		if e.Time.After(m.LastSeen) {
			m.LastSeen = e.Time
		}
	}
	var list []*shownUnpriced
	for _, m := range models {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *shownUnpriced) int {
		if a.Events != b.Events {
			return int(b.Events - a.Events)
		}
		return strings.Compare(*a.Provider+"\x00"+*a.Model, *b.Provider+"\x00"+*b.Model)
	})
	var want []string
	for _, m := range list {
		want = append(want, m.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("%s (-events +answer):\n%s", span, diff)
	}
}
