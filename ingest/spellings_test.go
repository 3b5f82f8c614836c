package ingest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// spellings are ways to go on under a name that looks like "café-bot", with what becomes of them: the same agent, another
// one, or none.
var spellings = []struct {
	name, agent string
	same        bool
	refused     bool
}{
	{name: "as it is", agent: "café-bot", same: true},
	{name: "spaces around", agent: "  café-bot ", same: true},
	{name: "decomposed", agent: "cafe\u0301-bot", same: true},
	{name: "escaped", agent: `caf\u00e9-bot`, same: true},
	{name: "capitals", agent: "Café-Bot"},
	{name: "space within", agent: "café -bot"},
	{name: "underscore", agent: "café_bot"},
	{name: "Cyrillic a", agent: "c\u0430fé-bot"},
	{name: "full-width", agent: "café-ｂｏｔ"},
	{name: "numbered", agent: "café-bot-2"},
	{name: "zero width", agent: "café\u200b-bot", refused: true},
	{name: "byte order mark", agent: "\ufeffcafé-bot", refused: true},
	{name: "soft hyphen", agent: "café\u00ad-bot", refused: true},
	{name: "direction", agent: "\u202ecafé-bot", refused: true},
	{name: "control", agent: `café\u0000-bot`, refused: true},
	{name: "empty", agent: "", refused: true},
}

// ways are events that seem to cost nothing.
var ways = []string{
	`"cost_usd":0.1`, `"cost_usd":0`, `"cost_usd":0.000000001`, `"model":"gpt-4o"`, `"input_tokens":1000`, `"model":"no-such-model","input_tokens":1000`, `"step":"x"`,
}

// No spelling of a capped agent and no event that seems to cost nothing gets past a reached cap, by any endpoint: it is the
// same agent, or is refused; and those that are other agents end at the cap of the account.
func TestSpellingsDoNotPassACap(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]string{"agent": "café-bot", "account": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithCaps(t, new(laterCaps))
			f.cap(t, schematest.Database(t), budget.Budget{
				Scope: budget.Scope{AccountID: f.account, Agent: agent}, Limit: dollar, Period: budget.Total, Timezone: "UTC", OnUnpriced: budget.Allow,
			})
			if got := f.post(t, "/v1/track", `{"agent":"café-bot","cost_usd":1}`); got.status != http.StatusOK {
				t.Fatalf("the first event: %d %v", got.status, got.body)
			}
			for _, s := range spellings {
				want := http.StatusPaymentRequired
				switch {
				case s.refused:
					want = http.StatusUnprocessableEntity
				case agent != "" && !s.same:
					want = http.StatusOK // Another agent, which has no cap.
				}
				for _, way := range ways {
					body := fmt.Sprintf(`{"agent":"%s",%s}`, s.agent, way)
					for _, path := range []string{"/v1/track", "/v1/events"} {
						if got := f.post(t, path, body); got.status != want {
							t.Errorf("%s: %s %s = %d %v, want %d", s.name, path, body, got.status, got.body, want)
						}
					}
					result := f.post(t, "/v1/track/batch", "["+body+"]").results(t)
					if got := fmt.Sprint(result[0]["status"]); got != fmt.Sprint(want) {
						t.Errorf("%s: batch of %s = %v, want %d", s.name, body, result[0], want)
					}
				}
			}
		})
	}
}
