package query_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

// oddValues are what no page of ours sends as a parameter, or as a part of a cursor.
var oddValues = []string{
	"", " ", "0", "-1", "1", "501", "007", "1e3", "1e400", "NaN", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
	strings.Repeat("9", 60), strings.Repeat("9", 61), "null", "true", "false", "\x00", "a\nb", "\xff", "\u202e", "'; DROP TABLE events; --", "%", "_", `\`, "*", "ß",
	strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("ü", 200), "ses_", "ses_ses_x", "evt_01jd0000000000000000000000", "evt_x", "Europe/Berlin", "Local", "UTC", "../../etc/passwd",
	"1999-12-31", "2000-01-01", "2200-01-01", "2200-01-02", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2026-02-30", "2026-01-31T24:00:00Z", "2026-01-31T00:00:00+14:00",
	"2026-01-31 00:00:00Z", "agent", "agent,model,provider", "agent,agent", "name", "cost_usd", "events", "last_seen", "duration_ms", "started_at", "asc", "desc", "ok", "error", "csv", "ndjson", "focus",
	"gpt-4o", "0.000000001", "1000000", "1000001", "-0", "{}", "[]", `"`, "queued", "firing",
}

// oddPositions are values for the parts of a cursor.
var oddPositions = []string{
	"", "0", "-1", "1e400", "0.5", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "253402300800000000", strings.Repeat("9", 60), strings.Repeat("9", 61),
	"null", "true", "{}", "\x00", "\xff", strings.Repeat("x", 205), "evt_01jd0000000000000000000000", "ses_", "'", "7298000000",
}

// asked are the endpoints that take parameters, with the names that they know.
var asked = map[string]string{
	"/v1/events":             "agent model provider session_id user_id tag status min_cost_usd q from to limit cursor",
	"/v1/events/export":      "agent model provider session_id user_id tag status min_cost_usd q from to format",
	"/v1/agents":             "from to q sort order limit cursor",
	"/v1/agents/support-bot": "from to",
	"/v1/sessions":           "agent user_id from to q sort order include_implicit limit cursor",
	"/v1/sessions/ses_one":   "limit cursor",
	"/v1/analytics/daily":    "from to group_by agent model provider timezone fill format",
	"/v1/analytics/hourly":   "from to group_by agent model provider timezone fill format",
	"/v1/analytics/summary":  "from to",
	"/v1/budgets":            "limit cursor",
	"/v1/prices":             "model provider at limit cursor",
	"/v1/prices/unpriced":    "from to",
	"/v1/reports":            "limit cursor",
	"/v1/jobs":               "kind state limit cursor",
	"/v1/incidents":          "alert_id agent state from to limit cursor",
	"/v1/audit":              "from to limit cursor",
	"/v1/account/deliveries": "limit cursor",
}

// oddQuestions is how many questions are asked on each edition.
func oddQuestions() int {
	if n, err := strconv.Atoi(os.Getenv("OUTLAY_SEEDS")); err == nil {
		return n
	}
	return 1500
}

// Whatever is asked, the answer is an answer or says what is wrong with the question:
// nothing of it reaches the database and fails there.
func TestOddQuestionsAreAnsweredOrRefused(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newOddWorld(t, pool)
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, 1))
		paths := slices.Sorted(maps.Keys(asked))
		statuses := map[int]int{}
		for range oddQuestions() {
			path := paths[r.IntN(len(paths))]
			values := url.Values{}
			for _, name := range strings.Fields(asked[path]) {
				if r.IntN(4) == 0 {
					values.Add(name, oddValues[r.IntN(len(oddValues))])
				}
			}
			statuses[w.askOddly(path, values)]++
		}
		t.Logf("seed %d: %v", seed, statuses)
		if statuses[http.StatusOK] == 0 || statuses[http.StatusUnprocessableEntity] == 0 {
			t.Errorf("statuses %v: the questions are no good examples", statuses)
		}
	})
}

// The same holds for a cursor of ours of which any part was changed.
func TestForgedCursorsAreAnsweredOrRefused(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newOddWorld(t, pool)
		forged := 0
		for path, names := range asked {
			if !strings.Contains(names, "cursor") {
				continue
			}
			for _, sort := range []string{"", "cost_usd", "name", "duration_ms"} {
				values := url.Values{"limit": {"1"}}
				if strings.Contains(names, "sort") {
					values.Set("sort", sort)
				} else if sort != "" {
					continue
				}
				for _, cursor := range w.forgedCursors(path, values) {
					values.Set("cursor", cursor)
					w.askOddly(path, values)
					forged++
				}
			}
		}
		t.Logf("%d forged cursors", forged)
		if forged < 500 {
			t.Errorf("%d forged cursors are too few: the lists have no second page", forged)
		}
	})
}

// newOddWorld has two of everything that is listed and easily made.
func newOddWorld(t *testing.T, pool *pgxpool.Pool) *world {
	t.Helper()
	w := newWorld(t, pool)
	for i := range 3 {
		w.store(w.alice.newEvent(func(e *schema.Event) {
			e.Agent, e.SessionID = fmt.Sprintf("agent-%d", i), fmt.Sprintf("ses_%d", i)
		}), w.alice.newEvent(func(e *schema.Event) { e.SessionID = "ses_one" }))
		w.alice.put(fmt.Sprintf("/v1/agents/agent-%d/budget", i), `{"limit_usd":1,"period":"day"}`).want(http.StatusOK)
		w.alice.addJob("report")
	}
	w.alice.addReport()
	return w
}

// askOddly returns the status of the answer, and fails the test unless it is one of
// those that a question can have.
func (w *world) askOddly(path string, values url.Values) int {
	w.t.Helper()
	answer := w.alice.get(path + "?" + values.Encode())
	switch answer.status {
	case http.StatusOK, http.StatusNotFound, http.StatusUnprocessableEntity:
	default:
		w.t.Errorf("%s = %d: %.500s", answer.what, answer.status, answer.body)
	}
	return answer.status
}

// forgedCursors asks for the first item and changes what the cursor behind it says, one
// part at a time.
func (w *world) forgedCursors(path string, values url.Values) (forged []string) {
	w.t.Helper()
	values.Del("cursor")
	var page struct {
		NextCursor *string `json:"next_cursor"`
	}
	first := w.alice.get(path + "?" + values.Encode())
	if first.status != http.StatusOK || json.Unmarshal(first.body, &page) != nil || page.NextCursor == nil {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(*page.NextCursor)
	if err != nil {
		w.t.Fatal(err)
	}
	var cursor struct {
		Question json.RawMessage            `json:"q"`
		Position map[string]json.RawMessage `json:"p"`
	}
	if err := json.Unmarshal(text, &cursor); err != nil {
		w.t.Fatalf("%s: %v", text, err)
	}
	for name, right := range cursor.Position {
		for _, value := range oddPositions {
			quoted, _ := json.Marshal(value)
			for _, literal := range []json.RawMessage{json.RawMessage(value), quoted} {
				cursor.Position[name] = literal
				if text, err := json.Marshal(cursor); err == nil { // Not every value is a literal.
					forged = append(forged, base64.RawURLEncoding.EncodeToString(text))
				}
			}
		}
		cursor.Position[name] = right
	}
	return forged
}
