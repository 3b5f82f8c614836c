package otlp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// compareWithProtobuf holds what was read of JSON to what is read of the same messages in
// protobuf.
func compareWithProtobuf(t *testing.T, body []byte, got Export) {
	t.Helper()
	traces, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces(body)
	if err != nil {
		t.Fatalf("Read takes what pdata refuses: %v", err)
	}
	proto, err := new(ptrace.ProtoMarshaler).MarshalTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	want, err := new(Reader).Read(proto, Protobuf)
	if errors.Is(err, ErrTooMany) || errors.Is(err, ErrTooDeep) {
		return // Protobuf has a message more here and there.
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Errorf("protobuf and JSON differ (-protobuf +JSON): %v\n%s", err, diff)
	}
}

// usualJSON are bodies as exporters write them.
func usualJSON() map[string]string {
	const call = `{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"","name":"chat","kind":3,
		"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000",
		"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.request.model","value":{"stringValue":"gpt-4o"}},
		{"key":"gen_ai.usage.input_tokens","value":{"intValue":"12"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":3}}%s],
		"status":{"code":2,"message":"a \"fault\""},"events":[%s],"links":[%s],"traceState":"a=b","flags":257,
		"droppedAttributesCount":0,"droppedEventsCount":1,"droppedLinksCount":0}`
	one := func(attributes, events, links string) string {
		return fmt.Sprintf(`{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}],"droppedAttributesCount":0},
			"scopeSpans":[{"scope":{"name":"lib","version":"1.0","attributes":[]},"spans":[`+call+`],"schemaUrl":"x"}],"schemaUrl":"y"}]}`, attributes, events, links)
	}
	attribute := func(value string) string {
		return one(`,{"key":"x","value":`+value+`}`, "", "")
	}
	return map[string]string{
		"nothing":           `{}`,
		"no resources":      ` {"resourceSpans":[ ]} `,
		"a call":            one("", "", ""),
		"on one line":       strings.ReplaceAll(strings.ReplaceAll(one("", "", ""), "\n", ""), "\t", ""),
		"an event":          one("", `{"timeUnixNano":"5","name":"e","attributes":[{"key":"a","value":{"boolValue":true}}],"droppedAttributesCount":0}`, ""),
		"a link":            one("", "", `{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","attributes":[],"traceState":"","flags":1,"droppedAttributesCount":2}`),
		"no value":          attribute(`{}`),
		"a double":          attribute(`{"doubleValue":-1.25}`),
		"a count as double": one(`,{"key":"gen_ai.usage.cache_read.input_tokens","value":{"doubleValue":5}}`, "", ""),
		"a negative number": attribute(`{"intValue":"-5"}`),
		"a list":            attribute(`{"arrayValue":{"values":[{"stringValue":"a"},{"intValue":1},{"arrayValue":{}}]}}`),
		"a map":             attribute(`{"kvlistValue":{"values":[{"key":"a","value":{"kvlistValue":{"values":[]}}}]}}`),
		"messages":          one(`,{"key":"gen_ai.input.messages","value":{"stringValue":"[{\"role\":\"user\",\"text\":\"hé\\n\"}]"}}`, "", ""),
		"name at the end":   `{"resourceSpans":[{"scopeSpans":[{"spans":[` + fmt.Sprintf(call, "", "", "") + `]}],"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"late"}}]}}]}`,
	}
}

// What exporters write is read as its protobuf is.
func TestReadJSONAsProtobuf(t *testing.T) {
	t.Parallel()
	for name, body := range usualJSON() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			export, err := new(Reader).Read([]byte(body), JSON)
			if err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			compareWithProtobuf(t, []byte(body), export)
		})
	}
}

// What is out of the ordinary is refused, or read as its protobuf is.
func TestReadOddJSON(t *testing.T) {
	t.Parallel()
	for name, c := range oddJSON(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			export, err := new(Reader).Read([]byte(c.body), JSON)
			if !errors.Is(err, c.want) {
				t.Errorf("Read = %v, want %v", err, c.want)
			}
			if err == nil {
				compareWithProtobuf(t, []byte(c.body), export)
			}
		})
	}
}

type oddBody struct {
	body string
	want error
}

// oddJSON are bodies that no exporter writes.
func oddJSON(t testing.TB) map[string]oddBody {
	t.Helper()
	usual := usualJSON()["a call"]
	replace := func(old, with string) string {
		if !strings.Contains(usual, old) {
			t.Fatalf("no %s in %s", old, usual)
		}
		return strings.Replace(usual, old, with, 1)
	}
	return map[string]oddBody{
		"snake case":              {replace("resourceSpans", "resource_spans"), nil},
		"unknown field":           {replace(`"flags"`, `"colour"`), nil},
		"a field twice":           {replace(`"flags":257`, `"kind":3`), ErrMalformed},
		"an attribute's key only": {replace(`{"key":"gen_ai.request.model","value":{"stringValue":"gpt-4o"}}`, `{"key":"x"}`), nil},
		"two values":              {replace(`{"intValue":3}`, `{"intValue":3,"stringValue":"3"}`), nil},
		"null":                    {replace(`"traceState":"a=b"`, `"traceState":null`), nil},
		"an escape in the model":  {replace("gpt-4o", `gpt\/4o`), nil},
		"an escaped name":         {replace("traceState", `trace\/State`), nil},
		"a code point":            {replace("a=b", `\u0041`), nil},
		"a line break":            {replace("a=b", "a\nb"), ErrMalformed},
		"no UTF-8":                {replace("a=b", "a\xff"), ErrMalformed},
		"a number too long":       {replace(`"12"`, `"12345678901234567890"`), ErrMalformed},
		"a leading zero":          {replace(`"12"`, `"012"`), nil},
		"an exponent":             {replace(`{"intValue":3}`, `{"doubleValue":3e1}`), nil},
		"a kind in words":         {replace(`"kind":3`, `"kind":"SPAN_KIND_CLIENT"`), nil},
		"a short id":              {replace("5b8e", "5b"), ErrMalformed},
		"ids in base64":           {replace("5b8efff798038103d269b633813fc60c", "W47/95gDgQPSabYzgT/GDA=="), ErrMalformed},
		"bytes":                   {replace(`{"stringValue":"gpt-4o"}`, `{"bytesValue":"AA=="}`), nil},
		"cut off":                 {usual[:len(usual)-1], ErrMalformed},
		"two bodies":              {usual + usual, ErrMalformed},
		"an array":                {"[" + usual + "]", ErrMalformed},
		"too deep":                {replace(`{"intValue":3}`, strings.Repeat(`{"arrayValue":{"values":[`, 20)+strings.Repeat(`]}}`, 20)), nil},
		"too many":                {`{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Repeat(`{},`, MaxSpans) + `{}]}]}]}`, ErrTooMany},
		"nothing":                 {"", ErrMalformed},
	}
}
