package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/outlayhq/outlay/schema/price"
)

// The packed breakdown of a price is the message of event.proto.
func TestBreakdownIsTheMessageOfEventProto(t *testing.T) {
	t.Parallel()
	q := price.Quote{Rule: "equals m", AboveTokens: 128_000}
	for k := range q.Parts {
		q.Parts[k] = price.Part{Tokens: int64(k) + 1, RatePicoUSD: 100, CostNanoUSD: 200}
	}
	message := dynamicpb.NewMessage(descriptor(t).Fields().ByName("cost_breakdown").Message())
	if err := proto.Unmarshal(AppendBreakdown(nil, &q), message); err != nil {
		t.Fatal(err)
	}
	names := message.Descriptor().ParentFile().Enums().ByName("TokenKind").Values()
	var want []string
	for k := range price.Kinds {
		want = append(want, fmt.Sprintf("kind:TOKEN_KIND_%s tokens:%d rate_pico_usd:100 cost_nano_usd:200", strings.ToUpper(k.String()), k+1))
	}
	var got []string
	parts := message.Get(message.Descriptor().Fields().ByName("parts")).List()
	for i := range parts.Len() {
		part := parts.Get(i).Message()
		var fields []string
		for j := range part.Descriptor().Fields().Len() {
			field := part.Descriptor().Fields().Get(j)
			value := part.Get(field).String()
			if field.Enum() != nil {
				value = string(names.ByNumber(part.Get(field).Enum()).Name())
			}
			fields = append(fields, string(field.Name())+":"+value)
		}
		if len(part.GetUnknown()) > 0 {
			t.Errorf("fields that event.proto does not have: %x", part.GetUnknown())
		}
		got = append(got, strings.Join(fields, " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	rest := message.Descriptor().Fields()
	if above, rule := message.Get(rest.ByName("above_tokens")).Int(), message.Get(rest.ByName("rule")).String(); above != q.AboveTokens || rule != q.Rule || len(message.GetUnknown()) > 0 {
		t.Errorf("above_tokens %d, rule %q, unknown %x", above, rule, message.GetUnknown())
	}
}

// Every number arrives as it was, however large, and of every kind.
func TestAppendBreakdownKeepsEveryNumber(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q price.Quote
		q.AboveTokens = rapid.Int64Min(0).Draw(t, "above")
		q.Rule = rapid.String().Draw(t, "rule")
		for k := range q.Parts {
			if n := rapid.Int64Min(0); rapid.Bool().Draw(t, "used") {
				q.Parts[k] = price.Part{Tokens: max(n.Draw(t, "tokens"), 1), RatePicoUSD: n.Draw(t, "rate"), CostNanoUSD: n.Draw(t, "cost")}
			}
		}
		got, err := unpack(AppendBreakdown(nil, &q))
		if err != nil {
			t.Fatal(err)
		}
		if got != q {
			t.Errorf("unpacked %+v, want %+v", got, q)
		}
	})
}

// What is no breakdown is told from one; what an earlier version made JSON stays that, and
// what a later one adds is passed over.
func TestAppendBreakdownJSONJudges(t *testing.T) {
	t.Parallel()
	q := price.Quote{Rule: "equals gpt-4o", Parts: price.Parts{price.Input: {Tokens: 1, RatePicoUSD: 2_500_000, CostNanoUSD: 2500}}}
	good := AppendBreakdown(nil, &q)
	minusOne := protowire.AppendVarint(nil, math.MaxUint64)
	for name, tt := range map[string]struct {
		b    []byte
		want string // "" for an error
	}{
		"JSON":            {[]byte(`[{"kind":"input"}]`), `[{"kind":"input"}]`},
		"added fields":    {append(slices.Clone(good), 0x60, 7, 0x6a, 1, 'x', 0x75, 0, 0, 0, 0), string(price.AppendBreakdown(nil, &q))},
		"added negative":  {append(slices.Clone(good), append([]byte{0x60}, minusOne...)...), string(price.AppendBreakdown(nil, &q))},
		"empty":           {nil, `[]`},
		"a rule alone":    {[]byte{0x1a, 1, 'r'}, `[]`},
		"cut off":         {good[:len(good)-1], ""},
		"no kind":         {[]byte{0x0a, 2, 0x10, 1}, ""},
		"unknown kind":    {[]byte{0x0a, 4, 0x08, byte(price.Kinds) + 1, 0x10, 1}, ""},
		"negative tokens": {append([]byte{0x0a, 13, 0x08, 1, 0x10}, minusOne...), ""},
		"negative step":   {append([]byte{0x10}, minusOne...), ""},
		"object":          {[]byte(`{"kind":"input"}`), ""},
	} {
		got, err := AppendBreakdownJSON(nil, tt.b)
		switch {
		case tt.want == "" && !errors.Is(err, ErrNotBreakdown):
			t.Errorf("%s: %s, error %v, want ErrNotBreakdown", name, got, err)
		case tt.want != "" && (err != nil || string(got) != tt.want):
			t.Errorf("%s: %s, error %v, want %s", name, got, err, tt.want)
		}
	}
}

// No bytes break the JSON that is made of a packed breakdown.
func FuzzBreakdown(f *testing.F) {
	q := price.Quote{Rule: "contains gemini-1.5-pro", AboveTokens: 128_000, Parts: price.Parts{price.CacheRead: {Tokens: 128_000, RatePicoUSD: 625_000, CostNanoUSD: 80_000_000}}}
	f.Add(AppendBreakdown(nil, &q))
	f.Add([]byte{})
	f.Add([]byte("[\\")) // a group that is not known
	f.Add([]byte("\x1a\x05\xff\\\"\x00\x80"))
	f.Fuzz(func(t *testing.T, packed []byte) {
		if isBreakdownJSON(packed) { // Decode lets none of it through that is not valid.
			return
		}
		text, err := AppendBreakdownJSON(nil, packed)
		if errors.Is(err, ErrNotBreakdown) {
			return
		}
		if err != nil || !json.Valid(text) || bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("AppendBreakdownJSON = %q, error %v", text, err)
		}
	})
}

func BenchmarkBreakdown(b *testing.B) {
	q := price.Quote{Rule: "equals gpt-4o", Parts: price.Parts{
		price.Input:     {Tokens: 400, RatePicoUSD: 2_500_000, CostNanoUSD: 1_000_000},
		price.CacheRead: {Tokens: 800, RatePicoUSD: 1_250_000, CostNanoUSD: 1_000_000},
		price.Output:    {Tokens: 350, RatePicoUSD: 10_000_000, CostNanoUSD: 3_500_000},
	}}
	packed := AppendBreakdown(nil, &q)
	dst := make([]byte, 0, 1024)
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = AppendBreakdown(dst[:0], &q)
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var err error
			if dst, err = AppendBreakdownJSON(dst[:0], packed); err != nil {
				b.Fatal(err)
			}
		}
	})
}
