package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/schematest"
)

type shownChannel struct{ Type, URL, To, Secret string }

type shownAlert struct {
	ID, Name, Metric       string
	Agent, Model, Provider *string
	Window                 string
	Condition              struct {
		Type        string
		Value       json.Number
		Sensitivity json.Number
	}
	Cooldown      string
	Channels      []shownChannel
	Enabled       bool
	State         string
	LastValue     *json.Number `json:"last_value"`
	LastCheckedAt *time.Time   `json:"last_checked_at"`
	LastFiredAt   *time.Time   `json:"last_fired_at"`
}

// fields is what a client may choose of a rule, in one line.
func (a shownAlert) fields() string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	line := fmt.Sprintf("%s %s %s/%s/%s %s %s%s%s %s %v %s", a.Name, a.Metric, text(a.Agent), text(a.Model), text(a.Provider), a.Window,
		a.Condition.Type, a.Condition.Value, a.Condition.Sensitivity, a.Cooldown, a.Enabled, a.State)
	for _, c := range a.Channels {
		line += " " + c.Type + ":" + c.URL + c.To
	}
	return line
}

func (p *person) patch(path, body string) *answer {
	p.t.Helper()
	return p.send(p.token, http.MethodPatch, path, body)
}

// newAlert makes a rule and fails the test unless it is there then.
func (p *person) newAlert(body string) (a shownAlert) {
	p.t.Helper()
	p.post("/v1/alerts", body).decode(http.StatusCreated, &a)
	return a
}

func (p *person) alert(id string) (a shownAlert) {
	p.t.Helper()
	p.get("/v1/alerts/"+id).decode(http.StatusOK, &a)
	return a
}

const slackURL = "https://hooks.slack.example/services/T000/B000/secretpart1234"

// A rule is made with defaults for what is left out, shown, changed in parts, and
// removed; what is shown once is shown once.
func TestAlertRulesComeAndGo(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		least := w.alice.newAlert(`{"name":" Spend ","metric":"cost_usd","window":"5m","condition":{"type":"above","value":5.000000001}}`)
		if got := least.fields(); got != "Spend cost_usd -/-/- 5m above5.000000001 1h true pending" {
			t.Errorf("with defaults: %s", got)
		}
		full := w.alice.newAlert(`{"name":"All","metric":"latency_p95_ms","agent":"bot","model":"m","provider":"p","window":"24h",
			"condition":{"type":"anomaly"},"cooldown":"90m","enabled":false,"channels":[
			{"type":"webhook","url":"https://example.com/a?b=c"},{"type":"slack","url":"` + slackURL + `"},{"type":"email","to":"ops@example.com"}]}`)
		channels := " webhook:https://example.com/a?b=c slack:https://hooks.slack.example/…1234 email:ops@example.com"
		if got := full.fields(); got != "All latency_p95_ms bot/m/p 24h anomaly3 1h30m false disabled"+channels {
			t.Errorf("with everything: %s", got)
		}
		secret := full.Channels[0].Secret
		if !strings.HasPrefix(secret, "whsec_") || full.Channels[1].Secret+full.Channels[2].Secret != "" {
			t.Errorf("secrets: %+v", full.Channels)
		}
		if got := w.alice.alert(full.ID); got.fields() != full.fields() || got.Channels[0].Secret != "" {
			t.Errorf("shown again: %s, secret %q", got.fields(), got.Channels[0].Secret)
		}
		var page struct{ Data []shownAlert }
		list := w.alice.get("/v1/alerts")
		list.decode(http.StatusOK, &page)
		if len(page.Data) != 2 || page.Data[0].fields() != full.fields() || page.Data[1].ID != least.ID ||
			strings.Contains(string(list.body), secret) || strings.Contains(string(list.body), "secretpart") {
			t.Errorf("list: %s", list.body)
		}
		w.alice.changeChannels(full, secret)
		w.send(w.alice.token, http.MethodDelete, "/v1/alerts/"+full.ID, "").want(http.StatusNoContent)
		w.alice.get("/v1/alerts/" + full.ID).refused(http.StatusNotFound)
		if got := w.alice.alert(least.ID); got.fields() != least.fields() {
			t.Errorf("the other rule: %s", got.fields())
		}
	})
}

// changeChannels changes a rule in parts: what is not named stays, and a channel that
// stays keeps its secret, also Slack's, whose address comes back as it was shown.
func (p *person) changeChannels(full shownAlert, secret string) {
	p.t.Helper()
	path := "/v1/alerts/" + full.ID
	for _, step := range []struct{ body, want string }{
		{`{"enabled":true}`, "All latency_p95_ms bot/m/p 24h anomaly3 1h30m true pending"},
		{`{"agent":null,"name":"New","window":"1h"}`, "New latency_p95_ms -/m/p 1h anomaly3 1h30m true pending"},
		{`{"condition":{"type":"above","value":900},"cooldown":"0s"}`, "New latency_p95_ms -/m/p 1h above900 0s true pending"},
	} {
		var changed shownAlert
		p.patch(path, step.body).decode(http.StatusOK, &changed)
		if got, _, _ := strings.Cut(changed.fields(), " webhook"); got != step.want || len(changed.Channels) != 3 {
			p.t.Errorf("PATCH %s: %s", step.body, changed.fields())
		}
	}
	var changed shownAlert
	p.patch(path, `{"channels":[{"type":"slack","url":"https://hooks.slack.example/…1234"},{"type":"webhook","url":"https://example.com/new"},
		{"type":"webhook","url":"https://example.com/a?b=c"}]}`).decode(http.StatusOK, &changed)
	if len(changed.Channels) != 3 || changed.Channels[1].Secret == "" || changed.Channels[1].Secret == secret ||
		changed.Channels[0].Secret+changed.Channels[2].Secret != "" {
		p.t.Errorf("channels: %+v", changed.Channels)
	}
	var kept []string
	rows, _ := p.pool.Query(p.t.Context(), `SELECT s.secret FROM alert_channels c JOIN alert_secrets s USING (channel_id) ORDER BY c.position`)
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			p.t.Fatal(err)
		}
		kept = append(kept, s)
	}
	if diff := cmp.Diff([]string{slackURL, changed.Channels[1].Secret, secret}, kept); diff != "" {
		p.t.Errorf("secrets that are kept (-want +got):\n%s", diff)
	}
	refusal := p.patch(path, `{"channels":[{"type":"slack","url":"https://other.example/…1234"}]}`).refused(http.StatusUnprocessableEntity)
	if refusal.Errors[0].Field != "channels" {
		p.t.Errorf("a hidden address of another channel: %+v", refusal)
	}
}

// Everything that is wrong with a rule is told at once, by the name of the field.
func TestBadAlertRulesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	rule := func(change string) string {
		fields := map[string]json.RawMessage{
			"name": json.RawMessage(`"n"`), "metric": json.RawMessage(`"cost_usd"`), "window": json.RawMessage(`"5m"`),
			"condition": json.RawMessage(`{"type":"above","value":1}`),
		}
		if err := json.Unmarshal([]byte(change), &fields); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	w.alice.newAlert(rule(`{}`))
	long := strings.Repeat("x", 201)
	for change, want := range map[string]string{
		`{"name":""}`: "name", `{"name":"a\u0000"}`: "name", `{"name":"` + long + `"}`: "name", `{"metric":"money"}`: "metric",
		`{"metric":""}`: "metric", `{"agent":""}`: "agent", `{"agent":"` + long + `"}`: "agent", `{"model":" "}`: "model",
		`{"provider":""}`: "provider", `{"window":"10m"}`: "window", `{"window":""}`: "window", `{"window":5}`: "window",
		`{"condition":null}`: "condition", `{"condition":{}}`: "condition.type", `{"condition":{"type":"below","value":1}}`: "condition.type",
		`{"condition":{"type":"above"}}`: "condition.value", `{"condition":{"type":"above","value":"5"}}`: "condition.value",
		`{"condition":{"type":"above","value":-1}}`: "condition.value", `{"condition":{"type":"above","value":9000000.1}}`: "condition.value",
		`{"metric":"events","condition":{"type":"above","value":1e16}}`:                 "condition.value",
		`{"metric":"events","condition":{"type":"above","value":1e999}}`:                "condition.value",
		`{"metric":"error_rate","condition":{"type":"above","value":1}}`:                "condition.value",
		`{"condition":{"type":"above","value":1,"sensitivity":3}}`:                      "condition.sensitivity",
		`{"condition":{"type":"anomaly","value":1}}`:                                    "condition.value",
		`{"condition":{"type":"anomaly","sensitivity":0.5}}`:                            "condition.sensitivity",
		`{"condition":{"type":"anomaly","sensitivity":21}}`:                             "condition.sensitivity",
		`{"condition":{"type":"above","value":1,"limit":1}}`:                            "condition.limit",
		`{"metric":"budget_used","model":"m","provider":"p"}`:                           "model provider",
		`{"metric":"budget_used","condition":{"type":"anomaly"}}`:                       "condition.type",
		`{"cooldown":"1 hour"}`:                                                         "cooldown",
		`{"cooldown":"-1h"}`:                                                            "cooldown",
		`{"cooldown":"169h"}`:                                                           "cooldown",
		`{"cooldown":"1ms"}`:                                                            "cooldown",
		`{"channels":[{"type":"pager"}]}`:                                               "channels[0].type",
		`{"channels":[{"type":"webhook"}]}`:                                             "channels[0].url",
		`{"channels":[{"type":"webhook","url":"ftp://a"}]}`:                             "channels[0].url",
		`{"channels":[{"type":"webhook","url":"https://user:pw@a.example/"}]}`:          "channels[0].url",
		`{"channels":[{"type":"webhook","url":"https://a.example/#x"}]}`:                "channels[0].url",
		`{"channels":[{"type":"webhook","url":"https://"}]}`:                            "channels[0].url",
		`{"channels":[{"type":"webhook","url":"https://a.example","to":"a@b.c"}]}`:      "channels[0].to",
		`{"channels":[{"type":"email","to":"nobody"}]}`:                                 "channels[0].to",
		`{"channels":[{"type":"email","to":"A <a@b.c>"}]}`:                              "channels[0].to",
		`{"channels":[{"type":"email","to":"a@b.c\r\nBcc: x@y.z"}]}`:                    "channels[0].to",
		`{"channels":[{"type":"email","to":"a@b.c"},{"type":"email","to":"a@b.c"}]}`:    "channels[1]",
		`{"severity":"high"}`:                                                           "severity",
		`{"name":"","window":"","metric":"x","cooldown":"x","channels":[{"type":"x"}]}`: "window cooldown name metric channels[0].type",
	} {
		var fields []string
		for _, f := range w.alice.post("/v1/alerts", rule(change)).refused(http.StatusUnprocessableEntity).Errors {
			fields = append(fields, f.Field)
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%s: names %q, want %q", change, got, want)
		}
	}
	made := w.alice.newAlert(rule(`{}`))
	for body, field := range map[string]string{
		`{"metric":"events"}`: "condition", `{"name":null}`: "name", `{"window":"1d"}`: "window", `{"id":"x"}`: "id", `[]`: "body",
	} {
		if refusal := w.alice.patch("/v1/alerts/"+made.ID, body).refused(422); refusal.Errors[0].Field != field {
			t.Errorf("PATCH %s: %+v", body, refusal.Errors)
		}
	}
	if got := w.alice.alert(made.ID); got.fields() != made.fields() {
		t.Errorf("after bad changes: %s", got.fields())
	}
}

// An account has at most a hundred rules, however they are asked for.
func TestAnAccountHasAtMostAHundredRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	const body = `{"name":"n","metric":"events","window":"5m","condition":{"type":"above","value":1}}`
	w.exec(`INSERT INTO alert_rules (alert_id, account_id, name, metric, window_minutes, condition, threshold, cooldown, enabled, created_at, updated_at)
		SELECT gen_random_uuid(), $1, 'n', 'events', 5, 'above', 1, '0', true, now(), now() FROM generate_series(1, 98)`, w.alice.account)
	statuses := make(chan int, 6)
	for range cap(statuses) {
		go func() { statuses <- w.alice.post("/v1/alerts", body).status }()
	}
	var got []int
	for range cap(statuses) {
		got = append(got, <-statuses)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]int{201, 201, 409, 409, 409, 409}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	w.bob.newAlert(body)
}

// Who may do what with rules, and that it is written down without secrets.
func TestAlertRolesAndAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	const body = `{"name":"n","metric":"events","window":"5m","condition":{"type":"above","value":1},"channels":[{"type":"slack","url":"` + slackURL + `"}]}`
	made := w.alice.newAlert(body)
	path := "/v1/alerts/" + made.ID
	var tested struct{ Data []struct{ ID string } }
	w.alice.post(path+"/test", "").decode(http.StatusAccepted, &tested)
	var payload string
	if err := w.pool.QueryRow(t.Context(), `SELECT payload::text FROM deliveries`).Scan(&payload); err != nil {
		t.Fatal(err)
	}
	schematest.CheckWebhook(t, []byte(payload))
	replay := path + "/deliveries/" + tested.Data[0].ID + "/replay"
	viewer := w.tokenFor(w.alice.colleague("viewer@example.com", account.Viewer))
	reads := []string{"/v1/alerts", path, path + "/deliveries", "/v1/incidents", "/v1/account/channels", "/v1/account/deliveries"}
	writes := []struct{ method, path, body string }{
		{"POST", "/v1/alerts", body},
		{"PATCH", path, `{"enabled":false}`},
		{"DELETE", path, ""},
		{"POST", path + "/test", ""},
		{"POST", replay, ""},
		{"PUT", "/v1/account/channels", `{"channels":[]}`},
		{"POST", "/v1/account/deliveries/" + tested.Data[0].ID + "/replay", ""},
	}
	for _, read := range reads {
		w.send(viewer, http.MethodGet, read, "").want(http.StatusOK)
		w.send("", http.MethodGet, read, "").refused(http.StatusUnauthorized)
	}
	for _, write := range writes {
		w.send(viewer, write.method, write.path, write.body).refused(http.StatusForbidden)
		w.send("", write.method, write.path, write.body).refused(http.StatusUnauthorized)
	}
	// Bob sees nothing of it and can do nothing with it.
	for _, read := range reads[1:3] {
		w.bob.get(read).refused(http.StatusNotFound)
	}
	for _, write := range writes[1:5] {
		w.send(w.bob.token, write.method, write.path, write.body).refused(http.StatusNotFound)
	}
	w.send(w.bob.token, http.MethodPost, writes[6].path, "").refused(http.StatusNotFound)
	w.exec(`UPDATE deliveries SET state = 'delivered', finished_at = now()`)
	w.alice.patch(path, `{"enabled":false}`).want(http.StatusOK)
	w.alice.post(replay, "").want(http.StatusAccepted)
	w.alice.put("/v1/account/channels", `{"channels":[{"type":"slack","url":"`+slackURL+`"}]}`).want(http.StatusOK)
	w.send(w.alice.token, http.MethodDelete, path, "").want(http.StatusNoContent)
	answer := w.alice.get("/v1/audit")
	var acts struct {
		Data []struct{ Action, Target string }
	}
	answer.decode(http.StatusOK, &acts)
	var got []string
	for _, a := range slices.Backward(acts.Data) {
		got = append(got, a.Action+" "+a.Target)
	}
	want := []string{
		"alert.create " + made.ID, "alert.test " + made.ID, "alert.change " + made.ID, "delivery.replay " + tested.Data[0].ID,
		"channels.set " + w.alice.account.Text(schema.AccountPrefix), "alert.remove " + made.ID,
	}
	if diff := cmp.Diff(want, got); diff != "" || strings.Contains(string(answer.body), "secretpart") {
		t.Errorf("audit (-want +got):\n%s\n%s", diff, answer.body)
	}
}
