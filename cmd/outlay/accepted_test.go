package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/ingest"
	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/limit"
	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/wire"
)

// acceptedBodies is how many bodies are tried.
func acceptedBodies() int {
	if n, err := strconv.Atoi(os.Getenv("OUTLAY_ACCEPTED_BODIES")); err == nil {
		return n
	}
	return 4000
}

// Nothing that is answered 200 can be refused by the database: what ingest accepts of
// thousands of odd bodies is stored, all of it, by the real statement.
func TestAcceptedIsStorable(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	owner := schema.NewID(time.Now())
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO accounts (id, name) VALUES ($1, 'test')`, owner); err != nil {
		t.Fatal(err)
	}
	if _, err := timescale.NewPositions(db.Pool, wire.EventsTopic).Next(t.Context(), []int32{0}); err != nil {
		t.Fatal(err)
	}
	broker := schematest.FakeKafka(t, kfake.SeedTopics(1, wire.EventsTopic))
	bodies := newOddBodies(uint64(time.Now().UnixNano()))
	t.Logf("seed %d", bodies.seed)
	accepted := offer(t, broker, owner, bodies, acceptedBodies())
	events := recorded(t, broker, accepted)
	sink := timescale.New(db.Pool, wire.EventsTopic)
	const batch = 250
	for first := 0; first < len(events); first += batch {
		store(t, sink, events, first, min(first+batch, len(events)))
	}
	var stored int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM events WHERE metadata IS NULL OR metadata::jsonb::text <> ''`).Scan(&stored); err != nil {
		t.Fatalf("what was stored cannot be read: %v", err)
	}
	if stored != len(events) {
		t.Errorf("%d events stored, want %d", stored, len(events))
	}
	t.Logf("%d of %d bodies accepted, %d events stored", accepted, bodies.made, stored)
}

// store saves a part of the events and, when the database refuses it, says which one.
func store(t *testing.T, sink *timescale.Sink, events []schema.Event, first, next int) {
	t.Helper()
	items := make([]timescale.Item, 0, next-first)
	for i := first; i < next; i++ {
		items = append(items, timescale.Item{Offset: int64(i), Event: events[i]})
	}
	span := []timescale.Span{{First: int64(first), Next: int64(next)}}
	result, err := sink.Save(t.Context(), span, items)
	switch {
	case err == nil && result.Stored+result.Duplicates == len(items):
	case err == nil:
		t.Fatalf("of %d events %+v", len(items), result)
	case len(items) == 1:
		t.Fatalf("the database refuses an accepted event: %v\n%+v\nmetadata %s", err, items[0].Event, items[0].Event.Metadata)
	default:
		middle := (first + next) / 2
		store(t, sink, events, first, middle)
		store(t, sink, events, middle, next)
	}
}

// offer sends n bodies to an ingest server, as NDJSON, and returns how many it took.
// Nothing may be answered with a 5xx.
func offer(t *testing.T, broker *kfake.Cluster, owner schema.ID, bodies *oddBodies, n int) (accepted int) {
	t.Helper()
	client, err := kgo.NewClient(append(ingest.ProducerOptions(wire.EventsTopic), kgo.SeedBrokers(broker.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	secret := account.NewSecret()
	hash, _ := account.ParseSecret(secret)
	server := httptest.NewServer(ingest.New(ingest.DefaultConfig(), ingest.Deps{
		Keys: oneKey{hash, owner}, Caps: uncapped{}, Limits: unlimited{},
		Prices: func(schema.ID) *price.Book { return price.Default() },
		Kafka:  client, Topic: wire.EventsTopic, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}).Handler())
	defer server.Close()
	const batch = 200
	for sent := 0; sent < n; sent += batch {
		var lines bytes.Buffer
		for range batch {
			lines.WriteString(bodies.next() + "\n")
		}
		accepted += offerBatch(t, server.URL, secret, lines.String())
	}
	return accepted
}

func offerBatch(t *testing.T, url, secret, lines string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/track/batch", strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Accepted int
		Results  []struct{ Status int }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("the answer is not JSON: %v: %.300s", err, text)
	}
	for i, r := range answer.Results {
		if r.Status >= 500 {
			t.Errorf("status %d for %.500s", r.Status, strings.Split(lines, "\n")[i])
		}
	}
	return answer.Accepted
}

// recorded returns the n events in the topic.
func recorded(t *testing.T, broker *kfake.Cluster, n int) []schema.Event {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics(wire.EventsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var events []schema.Event
	for len(events) < n {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			var e schema.Event
			if err := wire.Decode(r.Value, &e); err != nil {
				t.Fatalf("the processor cannot read an accepted event: %v", err)
			}
			events = append(events, e)
		})
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d of %d events: %v", len(events), n, err)
		}
	}
	return events
}

// oneKey is a directory with one API key.
type oneKey struct {
	hash  account.Hash
	owner schema.ID
}

func (k oneKey) Lookup(_ context.Context, h account.Hash) (account.Credential, bool, error) {
	return account.Credential{AccountID: k.owner, Plan: account.Enterprise}, h == k.hash, nil
}
func (oneKey) Ready() error       { return nil }
func (oneKey) Age() time.Duration { return 0 }
func (oneKey) Size() int          { return 1 }

// uncapped has no caps; what tracking does not ask is left out.
type uncapped struct{ ingest.Caps }

func (uncapped) Admit(context.Context, *schema.Event) (*lease.Charge, error) { return nil, nil } //nolint:nilnil // No cap, no charge.
func (uncapped) Ready() bool                                                 { return true }

// unlimited lets everything through.
type unlimited struct{}

func (unlimited) Take(schema.ID, account.Plan, int64) limit.Standing {
	return limit.Standing{Allowed: true}
}
func (unlimited) Return(schema.ID, int64) {}

// oddBodies makes bodies of events whose values are at and beyond the edges of what
// is allowed. The same seed makes the same ones.
type oddBodies struct {
	seed uint64
	made int
	r    *rand.Rand
}

func newOddBodies(seed uint64) *oddBodies {
	return &oddBodies{seed: seed, r: rand.New(rand.NewPCG(seed, 1))}
}

func (o *oddBodies) next() string {
	o.made++
	fields := []string{`"agent":` + o.text(200)}
	for _, name := range []string{"model", "provider", "session_id", "step", "user_id", "error_type"} {
		if o.r.IntN(4) == 0 {
			fields = append(fields, `"`+name+`":`+o.text(200))
		}
	}
	for _, name := range []string{"output_tokens", "latency_ms", "cost_usd"} {
		if o.r.IntN(4) == 0 {
			fields = append(fields, `"`+name+`":`+o.number())
		}
	}
	if o.r.IntN(4) == 0 {
		// No two are the same: a repeated key is stored once.
		fields = append(fields, fmt.Sprintf(`"idempotency_key":"%d %s`, o.made, o.text(200)[1:]))
	}
	switch o.r.IntN(4) {
	case 0:
		fields = append(fields, `"input_tokens":`+o.number())
	case 1:
		fields = append(fields, `"token_accounting":"exclusive","input_tokens":`+o.number()+`,"cache_read_tokens":`+o.number()+`,"cache_write_1h_tokens":`+o.number())
	case 2:
		fields = append(fields, `"model":"gpt-4o"`, `"usage":{"prompt_tokens":`+o.number()+`,"completion_tokens":`+o.number()+`}`)
	}
	if o.r.IntN(3) == 0 {
		fields = append(fields, `"metadata":`+o.object(o.r.IntN(10)))
	}
	if o.r.IntN(5) == 0 {
		fields = append(fields, `"tags":[`+o.text(64)+`,`+o.text(64)+`]`)
	}
	if o.r.IntN(5) == 0 {
		at := time.Now().Add(time.Duration(o.r.Int64N(int64(31*24*time.Hour))) * -1)
		fields = append(fields, `"timestamp":"`+at.Format(time.RFC3339Nano)+`"`)
	}
	if o.r.IntN(5) == 0 {
		fields = append(fields, `"status":"error","parent_event_id":"`+schema.NewID(time.Now()).Text(schema.EventPrefix)+`"`)
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// oddRunes are one of a kind each: planes, directions, widths, what joins and what is
// nothing.
var oddRunes = []string{
	"a", "Z", " ", "'", `\"`, `\\`, `\/`, "%", "ß", "é", "e\u0301", "\u00a0", "\u00ad", "\u0300", "\u05d0", "\u0627", "\u200b", "\u200d", "\u202e", "\u2028", "\u2029", "\u2066",
	"\u3000", "\ue000", "\ufdd0", "\ufeff", "\ufffd", "\ufffe", "\uffff", "\U0001F600", "\U0001F1E9", "\U000E0041", "\U0010FFFF", `\u00e9`, `\ud83d\ude00`, `\uffff`,
	`\udbff\udfff`, "漢", "𝔘", "$", "{", "}", "<", "&", ";",
}

// badRunes are what no text may hold.
var badRunes = []string{`\u0000`, "\x00", `\n`, "\x7f", "\u0085", `\u009f`, `\ud800`, `\udc00`, "\xff", "\xed\xa0\x80", "\xc0\x80", "\t"}

// text is a JSON string of about limit characters at most, seldom more.
func (o *oddBodies) text(limit int) string {
	n := 1 + o.r.IntN(12)
	if o.r.IntN(20) == 0 {
		n = limit - 1 + o.r.IntN(3)
	}
	var b strings.Builder
	for range n {
		b.WriteString(oddRunes[o.r.IntN(len(oddRunes))])
	}
	if o.r.IntN(30) == 0 {
		b.WriteString(badRunes[o.r.IntN(len(badRunes))])
	}
	return `"` + b.String() + `"`
}

// oddNumbers are numbers at the edges of what something takes.
var oddNumbers = []string{
	"0", "-0", "1", "-1", "1e3", "1E+2", "1.0", "0.5", "1e-9", "1e-308", "1e308", "1e309", "-1e308", "1.7976931348623157e308", "5e-324", "9007199254740991", "9007199254740992",
	"9223372036854775807", "9223372036854775808", "1000000", "999999.999999999", "0.0000000005", "0.00000000000000000000000000001", "1e131071", "12345678901234567890123456789012",
	"1e0308", "0e999999", "-0.0e-0", "01", "NaN",
}

func (o *oddBodies) number() string {
	if o.r.IntN(3) > 0 {
		return strconv.Itoa(o.r.IntN(100_000))
	}
	return oddNumbers[o.r.IntN(len(oddNumbers))]
}

// object is a JSON object nested at most depth deep.
func (o *oddBodies) object(depth int) string {
	var members []string
	for i := range o.r.IntN(5) {
		members = append(members, fmt.Sprintf(`"%d%s:%s`, i, o.text(20)[1:], o.value(depth-1)))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (o *oddBodies) value(depth int) string {
	if depth > 0 && o.r.IntN(2) == 0 {
		if o.r.IntN(2) == 0 {
			return o.object(depth)
		}
		return "[" + o.value(depth-1) + "," + o.value(depth-1) + "]"
	}
	switch o.r.IntN(6) {
	case 0:
		return "null"
	case 1:
		return "true"
	case 2, 3:
		return o.number()
	}
	return o.text(1000)
}
