package otlp

import (
	"bytes"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outlayhq/outlay/schema"
)

// attack is a body that is refused as a whole.
type attack struct {
	encoding Encoding
	body     []byte
	want     error
}

func hostile() map[string]attack {
	text := func(s string, want error) attack { return attack{JSON, []byte(s), want} }
	spans := func(s string) string { return `{"resourceSpans":[{"scopeSpans":[{"spans":[` + s + `]}]}]}` }
	return map[string]attack{
		"no protobuf":           {Protobuf, []byte("hello"), ErrMalformed},
		"JSON as protobuf":      {Protobuf, []byte(`{"resourceSpans":[]}`), ErrMalformed},
		"a length beyond":       {Protobuf, []byte{0x0a, 0xff, 0xff, 0xff, 0x7f}, ErrMalformed},
		"a varint without end":  {Protobuf, bytes.Repeat([]byte{0xff}, 40), ErrMalformed},
		"field 0":               {Protobuf, []byte{0x00, 0x00}, ErrMalformed},
		"a group left open":     {Protobuf, []byte{0x0b}, ErrMalformed},
		"a trace id of 3 bytes": {Protobuf, wrapProto([]byte{0x0a, 3, 1, 2, 3}, 2, 2, 1), ErrMalformed},
		"a span as a varint":    {Protobuf, wrapProto([]byte{0x10, 5}, 2, 1), ErrMalformed},
		"too many spans":        {Protobuf, wrapProto(bytes.Repeat([]byte{0x12, 0}, MaxSpans+1), 2, 1), ErrTooMany},
		"too many events":       {Protobuf, wrapProto(bytes.Repeat([]byte{0x5a, 0}, MaxNodes), 2, 2, 1), ErrTooMany},
		"too deep":              {Protobuf, deepProto(200), ErrTooDeep},
		"as deep as bytes go":   {Protobuf, deepProto(100_000), ErrTooDeep},

		"no JSON":             text("hello", ErrMalformed),
		"nothing":             text("", ErrMalformed),
		"null":                text("null", ErrMalformed),
		"an array":            text("[]", ErrMalformed),
		"cut off":             text(`{"resourceSpans":[`, ErrMalformed),
		"trailing data":       text(`{} {}`, ErrMalformed),
		"invalid UTF-8":       text("{\"a\":\"\xff\"}", ErrMalformed),
		"lone surrogate":      text(`{"a":"\ud800"}`, ErrMalformed),
		"duplicate names":     text(`{"resourceSpans":[],"resourceSpans":[]}`, ErrMalformed),
		"base64 ids":          text(spans(`{"traceId":"W47/95gDgQPSabYzgT/GDA==","spanId":"7uGbfsPBsXQ="}`), ErrMalformed),
		"a short id":          text(spans(`{"traceId":"5b8e","spanId":"eee1"}`), ErrMalformed),
		"spans as a number":   text(`{"resourceSpans":5}`, ErrMalformed),
		"a span as a text":    text(spans(`"x"`), ErrMalformed),
		"a time as an object": text(spans(`{"startTimeUnixNano":{}}`), ErrMalformed),
		"an int beyond":       text(spans(`{"attributes":[{"key":"a","value":{"intValue":"99999999999999999999"}}]}`), ErrMalformed),
		"empty spans":         text(spans(strings.Repeat(`{},`, MaxSpans)+`{}`), ErrTooMany),
		"null spans":          text(spans(strings.Repeat(`null,`, MaxNodes)+`null`), ErrTooMany),
		"a deep attribute":    text(spans(`{"attributes":[{"key":"a","value":`+strings.Repeat(`{"arrayValue":{"values":[`, 1000)+strings.Repeat(`]}}`, 1000)+`}]}`), ErrTooDeep),
		"deep and unknown":    text(strings.Repeat(`{"a":`, 9000)+`1`+strings.Repeat(`}`, 9000), ErrTooDeep),
	}
}

// wrapProto puts a message into fields of messages, from the inside out.
func wrapProto(inner []byte, fields ...protowire.Number) []byte {
	for _, field := range fields {
		outer := protowire.AppendTag(nil, field, protowire.BytesType)
		inner = protowire.AppendBytes(outer, inner)
	}
	return inner
}

// deepProto is a span with an attribute of arrays in arrays.
func deepProto(levels int) []byte {
	// The innermost levels are built backwards, as every length is in front.
	var reversed []byte
	length := 0
	for range levels {
		for _, field := range []protowire.Number{1, 5} {
			head := protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), uint64(length))
			length += len(head)
			for i := len(head) - 1; i >= 0; i-- {
				reversed = append(reversed, head[i])
			}
		}
	}
	value := make([]byte, length)
	for i, b := range reversed {
		value[length-1-i] = b
	}
	return wrapProto(value, 2, 9, 2, 2, 1)
}

// An attribute that is deep, but not too deep, is passed over.
func TestReadPassesOverDeepAttributes(t *testing.T) {
	t.Parallel()
	export, err := new(Reader).Read(deepProto(20), Protobuf)
	if err != nil || export.Others != 1 {
		t.Errorf("Read = %v, %v, want one span that is ignored", export, err)
	}
}

// Whatever the bytes, reading ends, keeps its promises and never panics.
func FuzzRead(f *testing.F) {
	seed := tracesOf(
		spanOf(1, usageOf("chat", 10, 5)), inside(1, spanOf(2, usageOf("chat", 10, 5))),
		inside(2, spanOf(3, map[string]any{"gen_ai.operation.name": "execute_tool", "deep": []any{map[string]any{"a": []any{1, 1.5, true, "x", []byte{1}}}}})),
	)
	proto, err := new(ptrace.ProtoMarshaler).MarshalTraces(seed)
	if err != nil {
		f.Fatal(err)
	}
	json, err := new(ptrace.JSONMarshaler).MarshalTraces(seed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(proto, false)
	f.Add(json, true)
	for _, body := range oddProto() {
		f.Add(body, false)
	}
	for _, body := range usualJSON() {
		f.Add([]byte(body), true)
	}
	for _, odd := range oddJSON(f) {
		f.Add([]byte(odd.body), true)
	}
	for _, a := range hostile() {
		if len(a.body) < 10_000 {
			f.Add(a.body, a.encoding == JSON)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		encoding := Protobuf
		if isJSON {
			encoding = JSON
		}
		export, err := new(Reader).Read(body, encoding)
		if err != nil {
			return
		}
		if isJSON {
			compareWithProtobuf(t, body, export)
		} else {
			compareWithMessages(t, body, export)
		}
		if export.Spans() > MaxSpans {
			t.Errorf("%d spans are more than allowed", export.Spans())
		}
		for _, c := range export.Calls {
			if len(c.Faults) > 0 {
				continue
			}
			if len(c.Key) != 49 || c.ParentKey == c.Key || c.SessionID == "" || c.LatencyMS < schema.NoLatency {
				t.Errorf("not a call: %+v", c)
			}
			for _, n := range []Count{c.Input, c.Output, c.CacheRead, c.CacheWrite, c.Reasoning} {
				if n.Value < 0 || n.Value > schema.MaxCount {
					t.Errorf("%+v is no count of tokens", n)
				}
			}
		}
	})
}
