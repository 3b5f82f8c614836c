package ingest

import (
	"bytes"
	stdcmp "cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/ingest/decode"
	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
	"github.com/outlayhq/outlay/schema/wire"
)

// fuzzServer prices events and writes none.
func fuzzServer() *Server {
	d := Deps{
		Keys: testKeys{}, Caps: noCaps{}, Replays: noReplays{}, Limits: noLimits{}, Prices: defaultPrices,
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	return New(DefaultConfig(), d)
}

var fuzzCredential = account.Credential{AccountID: schema.ID{15: 1}, Grant: trackAll}

// judge holds what must be true of any event: an error is the client's and is
// sent as JSON; an event that is valid answers JSON, survives the wire, and
// has nothing that the database or a page would choke on.
func judge(t *testing.T, s *Server, o record.Event, event *schema.Event) {
	t.Helper()
	if err := stdcmp.Or(o.Err, o.Invalid); err != nil {
		judgeProblem(t, err)
		return
	}
	o.Event = event
	if answer := s.appendResult(t.Context(), []byte{'{'}, &o); !json.Valid(answer) {
		t.Errorf("the answer is not JSON: %q", answer)
	}
	var again schema.Event
	if err := wire.Decode(wire.Append(nil, o.Event), &again); err != nil {
		t.Fatalf("the wire refuses the event: %v", err)
	}
	if diff := cmp.Diff(*o.Event, again); diff != "" {
		t.Errorf("the event differs behind the wire (-want +got):\n%s", diff)
	}
	judgeEvent(t, o.Event)
}

func judgeProblem(t *testing.T, err error) {
	t.Helper()
	var p *problem.Problem
	if !errors.As(err, &p) || p.Code == problem.Internal {
		t.Fatalf("a client can cause an internal error: %v", err)
	}
	if body := p.JSON("req"); !json.Valid(body) || !utf8.Valid(body) {
		t.Errorf("the problem is not JSON: %q", body)
	}
}

func judgeEvent(t *testing.T, e *schema.Event) {
	t.Helper()
	for _, text := range append([]string{e.Agent, e.Provider, e.Model, e.SessionID, e.ErrorType, e.Step, e.UserID, e.IdempotencyKey, e.PriceID}, e.Tags...) {
		if fault := schema.TextFault(text, 260); fault != "" {
			t.Errorf("accepted text %q %s", text, fault)
		}
	}
	judgeNames(t, e)
	for _, n := range []int64{e.InputTokens, e.OutputTokens, e.CacheReadTokens, e.CacheWriteTokens, e.CacheWrite1hTokens, e.ReasoningTokens} {
		if n < 0 || n > schema.MaxCount {
			t.Errorf("accepted count %d", n)
		}
	}
	if e.CacheReadTokens+e.CacheWriteTokens+e.CacheWrite1hTokens > e.InputTokens || e.ReasoningTokens > e.OutputTokens {
		t.Errorf("accepted parts above their total: %+v", e)
	}
	if e.Cost < 0 || e.Cost > schema.MaxEventCost {
		t.Errorf("accepted cost %s", e.Cost)
	}
	if e.Metadata != nil && (!json.Valid(e.Metadata) || !utf8.Valid(e.Metadata) || len(e.Metadata) > schema.MaxMetadataBytes) {
		t.Errorf("accepted metadata %q", e.Metadata)
	}
	if (e.Breakdown != nil) != (e.Source == schema.CostCalculated) {
		t.Errorf("a cost that is %s has the breakdown %q", e.Source, e.Breakdown)
	}
	judgeBreakdown(t, e)
}

// judgeBreakdown holds the parts of a cost, as they are stored, against it.
func judgeBreakdown(t *testing.T, e *schema.Event) {
	t.Helper()
	if e.Breakdown == nil {
		return
	}
	text, err := wire.AppendBreakdownJSON(nil, e.Breakdown)
	var parts []struct {
		Cost json.Number `json:"cost_usd"`
	}
	if err = errors.Join(err, json.Unmarshal(text, &parts)); err != nil {
		t.Fatalf("breakdown %q is %q: %v", e.Breakdown, text, err)
	}
	var sum schema.NanoUSD
	for _, part := range parts {
		cost, err := schema.ParseUSD(part.Cost.String())
		if err != nil {
			t.Fatal(err)
		}
		sum += cost
	}
	if sum != e.Cost {
		t.Errorf("the parts of %s add up to %s, the cost is %s", text, sum, e.Cost)
	}
}

// seedBodies gives a fuzzer every body of the table of hostile ones that is short.
func seedBodies(f *testing.F) {
	f.Helper()
	for _, c := range singles() {
		if len(c.body) < 4096 {
			f.Add([]byte(c.body))
		}
	}
	f.Add([]byte(`{"agent":"cafe` + "\u0301" + `","tags":["u` + "\u0308" + `"],"session_id":"` + "\u212b" + `","step":"` + "\u2764\ufe0f" + `"}`))
}

func FuzzTrack(f *testing.F) {
	seedBodies(f)
	s := fuzzServer()
	f.Fuzz(func(t *testing.T, body []byte) { judgeText(t, s, body) })
}

func FuzzBatchArray(f *testing.F) {
	for _, c := range batches() {
		if len(c.body) < 4096 {
			f.Add([]byte(c.body))
		}
	}
	fuzzBatch(f, decode.Array)
}

func FuzzBatchLines(f *testing.F) {
	seedBodies(f)
	f.Add([]byte("{\"agent\":\"a\"}\r\n\n{\"agent\":\"b\"}"))
	fuzzBatch(f, decode.Lines)
}

// fuzzBatch also holds that an event of a batch is read as it is alone.
func fuzzBatch(f *testing.F, split func([]byte, func([]byte)) error) {
	f.Helper()
	s := fuzzServer()
	f.Fuzz(func(t *testing.T, body []byte) {
		b, single := s.newBatch(fuzzCredential), s.newBatch(fuzzCredential)
		defer b.release()
		defer single.release()
		single.now = b.now
		err := split(body, func(text []byte) {
			b.read(text)
			single.read(bytes.Clone(text))
			i := len(b.records) - 1
			one := single.records[0]
			if diff := cmp.Diff(problemOf(one.Err), problemOf(b.records[i].Err)); diff != "" {
				t.Fatalf("event %d has other errors in the batch (-alone +batch):\n%s", i, diff)
			}
			if one.Err == nil {
				sameEvent(t, &single.events[0], &b.events[i])
			}
			single.reset()
			single.account, single.key = fuzzCredential.AccountID, fuzzCredential.Grant
		})
		if err != nil {
			judgeProblem(t, err)
			return
		}
		if n := len(b.records); n < 1 || n > decode.MaxBatchEvents {
			t.Fatalf("a batch of %d events", n)
		}
		for i, o := range b.records {
			judge(t, s, o, &b.events[i])
		}
	})
}

// judgeText reads and judges a single event.
func judgeText(t *testing.T, s *Server, text []byte) {
	t.Helper()
	b := s.newBatch(fuzzCredential)
	defer b.release()
	b.read(text)
	judge(t, s, b.records[0], &b.events[0])
}

// sameEvent compares events that were made at one time, but for ids by chance.
func sameEvent(t *testing.T, want, got *schema.Event) {
	t.Helper()
	ignored := cmpopts.IgnoreFields(schema.Event{}, "Leases")
	if got.IdempotencyKey == "" {
		ignored = cmpopts.IgnoreFields(schema.Event{}, "ID", "SessionID")
		if got.SessionImplicit != want.SessionImplicit || !got.SessionImplicit && got.SessionID != want.SessionID {
			t.Errorf("session %q, want %q", got.SessionID, want.SessionID)
		}
	}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("the event is another in the batch (-alone +batch):\n%s", diff)
	}
}

// problemOf is what a client is told of an error, or "".
func problemOf(err error) string {
	if err == nil {
		return ""
	}
	return string(problem.From(err).JSON(""))
}

func FuzzUsage(f *testing.F) {
	for _, usage := range []string{
		`{"prompt_tokens":12,"completion_tokens":1,"total_tokens":399,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":386}}`,
		`{"input_tokens":21,"cache_creation_input_tokens":188,"cache_read_input_tokens":1000,"output_tokens":393,"cache_creation":{"ephemeral_5m_input_tokens":88,"ephemeral_1h_input_tokens":100}}`,
		`{"input_tokens":328,"input_tokens_details":{"cached_tokens":200},"output_tokens":52,"output_tokens_details":{"reasoning_tokens":30}}`,
		`{"promptTokenCount":100,"candidatesTokenCount":20,"thoughtsTokenCount":30,"cachedContentTokenCount":40,"toolUsePromptTokenCount":5}`,
		`{"billed_units":{"input_tokens":5.0,"output_tokens":418},"tokens":{"input_tokens":71}}`,
		`{"inputTokens":30,"outputTokens":628,"cacheReadInputTokens":60,"cacheWriteInputTokens":40,"cacheDetails":[{"ttl":"1h","inputTokens":15},7]}`,
		`{}`, `null`, `[]`, `{"prompt_tokens":9007199254740991,"completion_tokens":9007199254740991,"completion_tokens_details":{"reasoning_tokens":9007199254740991}}`,
	} {
		f.Add([]byte(usage))
	}
	s := fuzzServer()
	f.Fuzz(func(t *testing.T, usage []byte) {
		for _, provider := range []string{"", "openai", "anthropic"} {
			body := append([]byte(`{"agent":"a","model":"gpt-4o","provider":"`+provider+`","usage":`), usage...)
			judgeText(t, s, append(body, '}'))
		}
	})
}

// FuzzBody also holds that a compressed body is what the standard library says it is,
// and never longer than allowed.
func FuzzBody(f *testing.F) {
	for _, body := range []string{"", `{"agent":"a"}`, strings.Repeat(" ", 5000)} {
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		_, _ = w.Write([]byte(body))
		_ = w.Close()
		f.Add(compressed.Bytes())
		f.Add(append(compressed.Bytes(), compressed.Bytes()...))
		f.Add(compressed.Bytes()[:compressed.Len()-3])
	}
	const limit = 4096
	capacity := fuzzServer().recorder.Capacity
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/v1/track", bytes.NewReader(body))
		r.Header.Set("Content-Encoding", "gzip")
		var m record.Memory
		m.Init(capacity)
		got, err := readBody(httptest.NewRecorder(), r, limit, &m)
		if err != nil {
			judgeProblem(t, err)
			return
		}
		defer releaseBody(got)
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(want, got.Bytes()) || len(want) > limit {
			t.Errorf("%d bytes are read of %d, %v", got.Len(), len(want), err)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	for _, c := range hostileMetadata {
		if len(c.value) < 4096 {
			f.Add([]byte(c.value))
		}
	}
	s := fuzzServer()
	f.Fuzz(func(t *testing.T, metadata []byte) {
		body := append([]byte(`{"agent":"a","metadata":`), metadata...)
		judgeText(t, s, append(body, '}'))
	})
}
