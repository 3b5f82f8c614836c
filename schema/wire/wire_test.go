package wire

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/outlayhq/outlay/schema"
)

// fullEvent has every field set.
func fullEvent() schema.Event {
	return schema.Event{
		ID: schema.ID{15: 1}, AccountID: schema.ID{15: 2}, Agent: "agent", Provider: "openai", Model: "gpt-4o",
		SessionID: "ses_x", SessionImplicit: true,
		Time: time.UnixMicro(1_700_000_000_000_001).UTC(), ReceivedAt: time.UnixMicro(1_700_000_000_000_002).UTC(),
		InputTokens: 10, OutputTokens: 11, CacheReadTokens: 12, CacheWriteTokens: 13, CacheWrite1hTokens: 14, ReasoningTokens: 15,
		LatencyMS: 16, Cost: 17, Source: schema.CostUnpriced, PriceID: "p", Breakdown: []byte{0x10, 1},
		Status: schema.StatusError, ErrorType: "timeout", Step: "plan", Parent: schema.ID{15: 3}, UserID: "u",
		Tags: []string{"a", "b"}, Metadata: []byte(`{"k":1}`), IdempotencyKey: "key",
		Leases: []schema.ID{{15: 4}, {15: 5}},
	}
}

// What is encoded by hand is the message of event.proto: an independent reader
// finds every field there, and nothing else.
func TestAppendWritesTheMessageOfEventProto(t *testing.T) {
	t.Parallel()
	e := fullEvent()
	message := dynamicpb.NewMessage(descriptor(t))
	if err := proto.Unmarshal(Append(nil, &e), message); err != nil {
		t.Fatal(err)
	}
	if unknown := message.GetUnknown(); len(unknown) > 0 {
		t.Errorf("fields that event.proto does not have: %x", unknown)
	}
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); !message.Has(field) && field.Name() != "cost_breakdown_json" {
			t.Errorf("field %s is not written", field.Name())
		}
	}
	if fields.Len() != lastField {
		t.Errorf("event.proto has %d fields, the decoder knows %d", fields.Len(), lastField)
	}
	// And back: what an independent writer makes is decoded as the same event.
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	var got schema.Event
	if err := Decode(again, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Errorf("decoded event differs (-want +got):\n%s", diff)
	}
}

func descriptor(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := compiler.Compile(context.Background(), "event.proto")
	if err != nil {
		t.Fatal(err)
	}
	return files[0].Messages().ByName("Event")
}

// Any event comes back from its bytes as it was.
func TestDecodeReversesAppend(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		var got schema.Event
		if err := Decode(Append(nil, &e), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatalf("decoded event differs (-want +got):\n%s", diff)
		}
	})
}

func drawEvent(t *rapid.T) schema.Event {
	count := rapid.Int64Range(0, schema.MaxCount)
	text := rapid.String()
	e := schema.Event{
		Agent: rapid.StringN(1, 200, -1).Draw(t, "agent"), Provider: text.Draw(t, "provider"), Model: text.Draw(t, "model"),
		SessionID: "ses_" + text.Draw(t, "session"), SessionImplicit: rapid.Bool().Draw(t, "implicit"),
		Time:        time.UnixMicro(rapid.Int64Range(1, 4e15).Draw(t, "time")).UTC(),
		ReceivedAt:  time.UnixMicro(rapid.Int64Range(1, 4e15).Draw(t, "received")).UTC(),
		InputTokens: count.Draw(t, "input"), OutputTokens: count.Draw(t, "output"),
		LatencyMS: rapid.Int64Range(schema.NoLatency, schema.MaxCount).Draw(t, "latency"),
		Cost:      schema.NanoUSD(rapid.Int64Range(0, int64(schema.MaxEventCost)).Draw(t, "cost")),
		Source:    costSources[rapid.IntRange(1, 4).Draw(t, "source")],
		Status:    schema.StatusOK, ErrorType: text.Draw(t, "error"), UserID: text.Draw(t, "user"),
		IdempotencyKey: text.Draw(t, "key"),
	}
	copy(e.ID[:], rapid.SliceOfN(rapid.ByteRange(1, 255), 16, 16).Draw(t, "id"))
	copy(e.AccountID[:], rapid.SliceOfN(rapid.ByteRange(1, 255), 16, 16).Draw(t, "account"))
	if tags := rapid.SliceOfN(text, 0, 3).Draw(t, "tags"); len(tags) > 0 {
		e.Tags = tags
	}
	return e
}

// A record that is not an event is refused, never half an event.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	e := fullEvent()
	good := Append(nil, &e)
	noAgent := e
	noAgent.Agent = ""
	for name, value := range map[string][]byte{
		"empty":            nil,
		"JSON":             []byte(`{"agent":"a"}`),
		"cut off":          good[:len(good)-3],
		"without agent":    Append(nil, &noAgent),
		"a time of zero":   append(append([]byte(nil), good...), 0x40, 0),
		"a lease of zeros": append(append(append([]byte(nil), good...), 0xea, 1, 16), make([]byte, 16)...),
		"short id":         {0x0a, 3, 1, 2, 3},
		"invalid UTF-8":    append(append([]byte(nil), good...), 0x1a, 1, 0xff),
		"wrong wire type":  append(append([]byte(nil), good...), 0x18, 1),
		"unknown source":   append(append([]byte(nil), good...), 0x90, 1, 9),
		"fixed-size field": append(append([]byte(nil), good...), 0x51, 0, 0, 0, 0, 0, 0, 0, 0),
	} {
		var got schema.Event
		if err := Decode(value, &got); !errors.Is(err, ErrNotEvent) {
			t.Errorf("%s: Decode error = %v, want ErrNotEvent", name, err)
		}
	}
}

// A later version may add fields; this one passes over them.
func TestDecodeSkipsUnknownFields(t *testing.T) {
	t.Parallel()
	e := fullEvent()
	value := append(Append(nil, &e), 0xa2, 0x06, 2, 'h', 'i') // field 100, text
	var got schema.Event
	if err := Decode(value, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Errorf("decoded event differs (-want +got):\n%s", diff)
	}
}

// Events that an earlier version wrote have the JSON of their breakdown.
func TestDecodeKeepsTheJSONOfEarlierVersions(t *testing.T) {
	t.Parallel()
	e := fullEvent()
	e.Breakdown = nil
	value := append(Append(nil, &e), 0xa2, 1, 2, '[', ']')
	e.Breakdown = []byte(`[]`)
	var got, again schema.Event
	for _, step := range []struct {
		value []byte
		to    *schema.Event
	}{{value, &got}, {Append(nil, &e), &again}} {
		if err := Decode(step.value, step.to); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, *step.to); diff != "" {
			t.Errorf("decoded event differs (-want +got):\n%s", diff)
		}
	}
}

// What is no JSON of a breakdown, or is it in the wrong field, does not cost the event.
func TestDecodeLeavesOutJSONThatIsNoBreakdown(t *testing.T) {
	t.Parallel()
	e := fullEvent()
	e.Breakdown = nil
	for name, field := range map[string][]byte{
		"JSON in the other field": {0xf2, 1, 2, '[', ']'},
		"no JSON":                 {0xa2, 1, 2, '[', 0},
		"JSON that is no array":   {0xa2, 1, 2, '{', '}'},
		"JSON that is not UTF-8":  {0xa2, 1, 5, '[', '"', 0xff, '"', ']'},
	} {
		var got schema.Event
		if err := Decode(append(Append(nil, &e), field...), &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("%s: decoded event differs (-want +got):\n%s", name, diff)
		}
	}
}

// A packed breakdown does not cost the event, whatever it is, as of a kind of token that
// a later version may know. It is judged when it is stored.
func TestDecodeDoesNotJudgeAPackedBreakdown(t *testing.T) {
	t.Parallel()
	for name, packed := range map[string][]byte{"a seventh kind": {0x0a, 4, 0x08, 7, 0x10, 1}, "no message": {0xff}} {
		e := fullEvent()
		e.Breakdown = packed
		var got schema.Event
		if err := Decode(Append(nil, &e), &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("%s: decoded event differs (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzDecode(f *testing.F) {
	e := fullEvent()
	f.Add(Append(nil, &e))
	f.Add([]byte{})
	f.Add(append(Append(nil, &e), 0xa2, 1, 0, 0xda, 1, 0, 0xd2, 1, 0)) // no JSON of a breakdown, no metadata, and a tag that is empty
	f.Fuzz(func(t *testing.T, value []byte) {
		var got schema.Event
		if err := Decode(value, &got); err != nil {
			return
		}
		// What was decoded can be written and read again as the same event.
		var again schema.Event
		if err := Decode(Append(nil, &got), &again); err != nil {
			t.Fatalf("written again it is refused: %v", err)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("written again it differs:\n%s", diff)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	e := fullEvent()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = Append(buf[:0], &e)
	}
}

func BenchmarkDecode(b *testing.B) {
	e := fullEvent()
	value := Append(nil, &e)
	var got schema.Event
	b.ReportAllocs()
	for b.Loop() {
		if err := Decode(value, &got); err != nil {
			b.Fatal(err)
		}
	}
}
