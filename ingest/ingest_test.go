package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/limit"
	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/ingest/replay"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/httpserver"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/wire"
)

// testKeys is a directory of API keys without a database.
type testKeys map[account.Hash]account.Credential

func (k testKeys) Lookup(_ context.Context, h account.Hash, _ account.Asker) (account.Credential, bool, error) {
	c, ok := k[h]
	return c, ok, nil
}

func (testKeys) Ready() error          { return nil }
func (testKeys) Age() time.Duration    { return 0 }
func (k testKeys) Size() int           { return len(k) }
func (testKeys) RefusedLookups() int64 { return 0 }

// trackAll is what a key may do unless something else was asked for.
var trackAll = account.Grant{Scopes: []account.Scope{account.Track}}

// noCaps lets everything through.
type noCaps struct{}

func (noCaps) Admit(context.Context, *schema.Event) (*lease.Charge, error) { return nil, nil }
func (noCaps) Refused(*schema.Event)                                       {}
func (noCaps) Ready() bool                                                 { return true }
func (noCaps) Standing(context.Context, budget.Scope) (lease.Standing, bool, error) {
	return lease.Standing{}, false, nil
}

func (noCaps) Known(context.Context, budget.Scope) (lease.Standing, bool) {
	return lease.Standing{}, false
}

// noReplays knows no key.
type noReplays struct{}

func (noReplays) Check(_ context.Context, keys []replay.Key) []replay.Answer {
	return slices.Repeat([]replay.Answer{replay.Unrecorded}, len(keys))
}

// defaultPrices are the built-in prices, for every account.
func defaultPrices(schema.ID) *price.Book { return price.Default() }

// fixture is an ingest server with a broker and one API key.
type fixture struct {
	server   *httptest.Server
	ingest   *Server
	cluster  *kfake.Cluster
	registry *prometheus.Registry
	secret   string
	account  schema.ID
}

func newFixture(t testing.TB, change func(*Config)) *fixture {
	t.Helper()
	return newFixtureWith(t, func(c *Config, _ *Deps) {
		if change != nil {
			change(c)
		}
	})
}

// newFixtureWithCaps has caps of its own.
func newFixtureWithCaps(t testing.TB, caps Caps) *fixture {
	t.Helper()
	return newFixtureWith(t, func(_ *Config, d *Deps) { d.Caps = caps })
}

func newFixtureWith(t testing.TB, change func(*Config, *Deps)) *fixture {
	t.Helper()
	f := &fixture{
		cluster:  schematest.FakeKafka(t, kfake.SeedTopics(2, wire.EventsTopic)),
		registry: prometheus.NewRegistry(), secret: account.NewSecret(), account: schema.NewID(time.Now()),
	}
	client, err := kgo.NewClient(append(record.ProducerOptions(wire.EventsTopic), kgo.SeedBrokers(f.cluster.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	hash, _ := account.ParseSecret(f.secret)
	cfg, d := DefaultConfig(), Deps{
		Keys:    testKeys{hash: {AccountID: f.account, Plan: account.Enterprise, Grant: trackAll}},
		Caps:    noCaps{},
		Replays: noReplays{}, Limits: noLimits{}, Checks: limit.NewChecks(limit.DefaultConfig(), time.Now),
		Prices: defaultPrices, Kafka: client, Topic: wire.EventsTopic,
		Metrics: f.registry, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	change(&cfg, &d)
	f.ingest = New(cfg, d)
	f.server = startServer(t, f.ingest.Handler(), httpserver.Config{})
	return f
}

// startServer starts the server that the real one is.
func startServer(t testing.TB, h http.Handler, c httpserver.Config) *httptest.Server {
	s := httptest.NewUnstartedServer(nil)
	s.Config = httpserver.New(h, c)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// answer is an answer with its body parsed.
type answer struct {
	status int
	header http.Header
	body   map[string]any
}

func (f *fixture) post(t testing.TB, path, body string, headers ...string) answer {
	t.Helper()
	return f.do(t, http.MethodPost, path, []byte(body), append([]string{
		"Authorization", "Bearer " + f.secret, "Content-Type", "application/json",
	}, headers...)...)
}

// do sends a request that is answered in JSON.
func (f *fixture) do(t testing.TB, method, path string, body []byte, headers ...string) answer {
	t.Helper()
	status, header, text := f.send(t, method, path, body, headers...)
	r := answer{status: status, header: header}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&r.body); err != nil {
		t.Fatalf("the answer %q is not JSON: %v", text, err)
	}
	return r
}

// send sends a request with headers given as pairs; an empty value takes one away.
func (f *fixture) send(t testing.TB, method, path string, body []byte, headers ...string) (status int, header http.Header, text []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.server.URL+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := f.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, text
}

// events returns the n events that the topic holds.
func (f *fixture) events(t testing.TB, n int) []schema.Event {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.cluster.ListenAddrs()...),
		kgo.ConsumeTopics(wire.EventsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var events []schema.Event
	for len(events) < n {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d of %d events: %v", len(events), n, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var e schema.Event
			if err := wire.Decode(r.Value, &e); err != nil {
				t.Fatal(err)
			}
			if want := wire.AppendKey(nil, &e); !bytes.Equal(r.Key, want) {
				t.Errorf("record key = %q, want %q", r.Key, want)
			}
			events = append(events, e)
		})
	}
	return events
}

// metric returns the value of a counter or gauge, with the given value of its label if it has one.
func (f *fixture) metric(t *testing.T, name string, label ...string) float64 {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if len(label) == 0 || m.GetLabel()[0].GetValue() == label[0] {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no metric %s %v", name, label)
	return 0
}
