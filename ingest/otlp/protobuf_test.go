package otlp

import (
	"bytes"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"
)

// textAttribute is an attribute as it is inside of a span's field 9.
func textAttribute(name, text string) []byte {
	return append(wrapProto([]byte(name), 1), wrapProto([]byte(text), 1, 2)...)
}

// oddProto are bodies that are valid, though no exporter writes them so.
func oddProto() map[string][]byte {
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	service := wrapProto(textAttribute("service.name", "shop"), 1, 1)
	ids := join(wrapProto(bytes.Repeat([]byte{7}, 16), 1), wrapProto(bytes.Repeat([]byte{8}, 8), 2))
	call := join(ids, wrapProto(textAttribute("gen_ai.operation.name", "chat"), 9), wrapProto(textAttribute("gen_ai.request.model", "gpt-4o"), 9))
	spans := func(span ...[]byte) []byte { return wrapProto(join(span...), 2, 2) }
	number := func(field protowire.Number, n uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), n)
	}
	fixed := func(field protowire.Number, n uint64) []byte {
		return protowire.AppendFixed64(protowire.AppendTag(nil, field, protowire.Fixed64Type), n)
	}
	tokens := func(value ...[]byte) []byte {
		return wrapProto(join(wrapProto([]byte("gen_ai.usage.input_tokens"), 1), wrapProto(join(value...), 2)), 9)
	}
	return map[string][]byte{
		"resource after spans":    wrapProto(join(spans(call), service), 1),
		"resource in two parts":   wrapProto(join(wrapProto(textAttribute("a", "b"), 1, 1), service, spans(call)), 1),
		"two service names":       wrapProto(join(service, wrapProto(textAttribute("service.name", "other"), 1, 1), spans(call)), 1),
		"service of another type": wrapProto(join(wrapProto(join(wrapProto([]byte("service.name"), 1), wrapProto(number(3, 5), 2)), 1, 1), service, spans(call)), 1),
		"two resources":           join(wrapProto(join(service, spans(call)), 1), wrapProto(spans(call), 1)),
		"value before name":       wrapProto(spans(ids, wrapProto(join(wrapProto([]byte("chat"), 1, 2), wrapProto([]byte("gen_ai.operation.name"), 1)), 9)), 1),
		"name given twice":        wrapProto(spans(ids, wrapProto(join(wrapProto([]byte("x"), 1), textAttribute("gen_ai.operation.name", "chat")), 9)), 1),
		"attribute twice":         wrapProto(spans(call, wrapProto(textAttribute("gen_ai.request.model", "other"), 9)), 1),
		"no value, then one":      wrapProto(spans(call, wrapProto(wrapProto([]byte("gen_ai.agent.name"), 1), 9), wrapProto(textAttribute("gen_ai.agent.name", "a"), 9)), 1),
		"two values":              wrapProto(spans(call, tokens(wrapProto([]byte("5"), 1), number(3, 6))), 1),
		"a number, then a list":   wrapProto(spans(call, tokens(number(3, 6), wrapProto(nil, 5))), 1),
		"a negative count":        wrapProto(spans(call, tokens(number(3, math.MaxUint64))), 1),
		"a count as a double":     wrapProto(spans(call, tokens(fixed(4, math.Float64bits(12)))), 1),
		"a count as true":         wrapProto(spans(call, tokens(number(2, 1))), 1),
		"a count as bytes":        wrapProto(spans(call, tokens(wrapProto([]byte("5"), 7))), 1),
		"the ids twice":           wrapProto(spans(call, wrapProto(nil, 2), wrapProto(bytes.Repeat([]byte{9}, 16), 1)), 1),
		"a kind beyond 32 bits":   wrapProto(spans(call, number(6, 1<<32+2)), 1),
		"status in two parts":     wrapProto(spans(call, wrapProto(number(3, 2), 15), wrapProto(wrapProto([]byte("m"), 2), 15)), 1),
		"times":                   wrapProto(spans(call, fixed(7, 1_000_000_000), fixed(8, 3_000_000_000), fixed(7, 2_000_000_000)), 1),
		"unknown fields":          join(number(99, 1), wrapProto(join(spans(call, number(99, 1), fixed(98, 1), wrapProto([]byte("x"), 97)), number(99, 1)), 1)),
	}
}

// However a request is written, reading it says what OpenTelemetry's own messages
// say.
func TestReadProtobufAsTheMessagesDo(t *testing.T) {
	t.Parallel()
	for name, body := range oddProto() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			export, err := new(Reader).Read(body, Protobuf)
			if err != nil {
				t.Fatal(err)
			}
			if compared := compareWithMessages(t, body, export); !compared || export.Spans() == 0 {
				t.Errorf("the body is no good example: compared = %t, %d spans", compared, export.Spans())
			}
		})
	}
}

// Of an attribute that is there twice, the first counts.
func TestReadTakesTheFirstOfTwoAttributes(t *testing.T) {
	t.Parallel()
	export, err := new(Reader).Read(oddProto()["attribute twice"], Protobuf)
	if err != nil || len(export.Calls) != 1 || export.Calls[0].Model != "gpt-4o" {
		t.Errorf("Read = %+v, %v, want one call of gpt-4o", export, err)
	}
}

// compareWithMessages holds what was read of protobuf to what OpenTelemetry's own
// messages say, where they take the body. Of what is passed over they refuse more.
func compareWithMessages(t *testing.T, body []byte, got Export) (compared bool) {
	t.Helper()
	traces, err := new(ptrace.ProtoUnmarshaler).UnmarshalTraces(body)
	if err != nil {
		return false
	}
	var found collected
	found.addAll(traces)
	if diff := cmp.Diff(found.export(), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the messages say otherwise (-messages +Read):\n%s", diff)
	}
	return true
}
