package query_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/webhook"
)

// names is a resolver by which every name under example and example.com is public, but for those that are here.
type names map[string]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if address, ok := n[host]; ok {
		return []netip.Addr{netip.MustParseAddr(address)}, nil
	}
	if strings.HasSuffix(host, ".example") || strings.HasSuffix(host, "example.com") {
		return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// givesChannels sends channels in every way that there is, to a rule that has one already, and returns the refusals by the way.
func (p *person) givesChannels(rule, channels string) map[string]*refusal {
	p.t.Helper()
	refusals := map[string]*refusal{}
	for way, send := range map[string]func() *answer{
		"POST /v1/alerts": func() *answer {
			return p.post("/v1/alerts", `{"name":"n","metric":"events","window":"5m","condition":{"type":"above","value":1},"channels":`+channels+`}`)
		},
		"PATCH /v1/alerts/{id}":    func() *answer { return p.patch("/v1/alerts/"+rule, `{"channels":`+channels+`}`) },
		"PUT /v1/account/channels": func() *answer { return p.put("/v1/account/channels", `{"channels":`+channels+`}`) },
	} {
		if got := send(); got.status >= 300 {
			r := got.refused(http.StatusUnprocessableEntity)
			refusals[way] = &r
		}
	}
	return refusals
}

// A channel that could not be used, or that the operator does not permit, is refused when it is given, in words that name the setting.
func TestChannelsThatCannotBeUsedAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, database(t), func(c *query.Config) {
		c.Mail, c.Resolver = false, names{"inside.example": "10.1.2.3", "localhost": "127.0.0.1"}
	})
	rule := w.alice.newAlert(`{"name":"n","metric":"events","window":"5m","condition":{"type":"above","value":1},"channels":[{"type":"webhook","url":"https://a.example/"}]}`).ID
	for channel, want := range map[string]struct{ field, setting string }{
		`{"type":"email","to":"a@b.example"}`:                        {"to", "--smtp-host"},
		`{"type":"webhook","url":"https://127.0.0.1/"}`:              {"url", "--webhook-allow-cidr"},
		`{"type":"webhook","url":"https://[::ffff:10.0.0.1]/"}`:      {"url", "--webhook-allow-cidr"},
		`{"type":"webhook","url":"https://169.254.169.254/latest"}`:  {"url", "--webhook-allow-cidr"},
		`{"type":"webhook","url":"https://inside.example/"}`:         {"url", "--webhook-allow-cidr"},
		`{"type":"webhook","url":"https://localhost:8443/"}`:         {"url", "--webhook-allow-cidr"},
		`{"type":"slack","url":"https://inside.example/services/x"}`: {"url", "--webhook-allow-cidr"},
		`{"type":"slack","url":"http://slack.example/services/x"}`:   {"url", "--webhook-allow-http"},
		`{"type":"webhook","url":"http://a.example/"}`:               {"url", "--webhook-allow-http"},
		`{"type":"webhook","url":"https://a.example:25/"}`:           {"url", "--webhook-allow-port"},
		`{"type":"webhook","url":"https://nowhere.invalid/"}`:        {"url", "cannot be found"},
		`{"type":"webhook","url":"https://2130706433/"}`:             {"url", "four decimal numbers"},
	} {
		refusals := w.alice.givesChannels(rule, `[{"type":"webhook","url":"https://b.example/"},`+channel+`]`)
		if len(refusals) != 3 {
			t.Errorf("%s: refused by %d ways of 3", channel, len(refusals))
		}
		for way, r := range refusals {
			if len(r.Errors) != 1 || r.Errors[0].Field != "channels[1]."+want.field || !strings.Contains(r.Errors[0].Message, want.setting) {
				t.Errorf("%s %s: %+v, want %s of channels[1] with %q", way, channel, r.Errors, want.field, want.setting)
			}
			if strings.Contains(r.Errors[0].Message, "10.1.2.3") {
				t.Errorf("%s %s: the refusal shows where the name leads: %s", way, channel, r.Errors[0].Message)
			}
		}
	}
	schedule := w.alice.post("/v1/reports/schedules", weekly).refused(http.StatusUnprocessableEntity)
	if len(schedule.Errors) != 1 || schedule.Errors[0].Field != "recipients" || !strings.Contains(schedule.Errors[0].Message, "--smtp-host") {
		t.Errorf("a schedule without a mail server: %+v", schedule.Errors)
	}
	var left struct {
		Data []shownAlert
	}
	w.alice.get("/v1/alerts").decode(http.StatusOK, &left)
	if len(left.Data) != 1 || len(left.Data[0].Channels) != 1 || left.Data[0].Channels[0].URL != "https://a.example/" {
		t.Errorf("after the refusals there are %+v", left.Data)
	}
}

// What the operator permits is accepted.
func TestPermittedChannelsAreAccepted(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, database(t), func(c *query.Config) {
		c.Resolver = names{"inside.example": "10.1.2.3"}
		c.Webhooks = webhook.Config{AllowCIDRs: []string{"10.1.0.0/16", "127.0.0.1/32"}, AllowHTTP: true, AllowPorts: []int{25}}
	})
	rule := w.alice.newAlert(`{"name":"n","metric":"events","window":"5m","condition":{"type":"above","value":1}}`).ID
	for _, channel := range []string{
		`{"type":"email","to":"a@b.example"}`, `{"type":"webhook","url":"http://127.0.0.1:12345/"}`, `{"type":"webhook","url":"https://inside.example:25/"}`,
		`{"type":"slack","url":"http://inside.example/services/x"}`,
	} {
		if refusals := w.alice.givesChannels(rule, "["+channel+"]"); len(refusals) != 0 {
			t.Errorf("%s: %+v", channel, refusals)
		}
	}
	w.alice.post("/v1/reports/schedules", weekly).want(http.StatusCreated)
}

// A rule without channels is accepted and warns that it notifies nobody, until it has one.
func TestRuleWithoutChannelsWarns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var rule struct{ ID, Warning string }
	w.alice.post("/v1/alerts", `{"name":"n","metric":"events","window":"5m","condition":{"type":"above","value":1}}`).decode(http.StatusCreated, &rule)
	if !strings.Contains(rule.Warning, "no channels") {
		t.Errorf("made with warning %q", rule.Warning)
	}
	for _, step := range []struct {
		body  string
		warns bool
	}{{`{"name":"m"}`, true}, {`{"channels":[{"type":"email","to":"a@b.example"}]}`, false}, {`{"name":"n"}`, false}, {`{"channels":[]}`, true}} {
		rule.Warning = ""
		w.alice.patch("/v1/alerts/"+rule.ID, step.body).decode(http.StatusOK, &rule)
		if (rule.Warning != "") != step.warns {
			t.Errorf("PATCH %s: warning %q", step.body, rule.Warning)
		}
	}
}

// The account's own channels are set as a whole, and what went to them can be looked
// at and sent again.
func TestOwnChannels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var got struct{ Channels []shownChannel }
	w.alice.get("/v1/account/channels").decode(http.StatusOK, &got)
	if got.Channels == nil || len(got.Channels) != 0 {
		t.Errorf("at first: %+v", got)
	}
	w.alice.put("/v1/account/channels", `{"channels":[{"type":"webhook","url":"https://a.example"},{"type":"email","to":"a@b.example"}]}`).decode(http.StatusOK, &got)
	if len(got.Channels) != 2 || !regexp.MustCompile(`^whsec_`).MatchString(got.Channels[0].Secret) {
		t.Errorf("set: %+v", got)
	}
	for _, body := range []string{`{"channels":[{"type":"x"}]}`, `{}`, `{"channels":null}`} {
		w.alice.put("/v1/account/channels", body).refused(http.StatusUnprocessableEntity)
	}
	w.alice.put("/v1/account/channels", `{"channels":[{"type":"email","to":"a@b.example"}]}`).decode(http.StatusOK, &got)
	if len(got.Channels) != 1 || got.Channels[0].To != "a@b.example" {
		t.Errorf("set again: %+v", got)
	}
	m := &alert.Message{Type: alert.ReportReady, Cause: "report 1", Title: "t", Summary: "s", Data: map[string]any{}, At: w.now}
	for range 2 {
		if err := alert.NewStore(w.pool).NotifyAccount(t.Context(), w.alice.account, m); err != nil {
			t.Fatal(err)
		}
	}
	var page struct{ Data []shownDelivery }
	w.alice.get("/v1/account/deliveries").decode(http.StatusOK, &page)
	if len(page.Data) != 1 || page.Data[0].Message != "report.ready" {
		t.Fatalf("told twice: %+v", page.Data)
	}
	w.alice.post("/v1/account/deliveries/"+page.Data[0].ID+"/replay", "").refused(http.StatusConflict)
	w.exec(`UPDATE deliveries SET state = 'delivered', finished_at = now()`)
	w.alice.post("/v1/account/deliveries/"+page.Data[0].ID+"/replay", "").want(http.StatusAccepted)
}
