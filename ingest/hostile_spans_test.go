package ingest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// spans are requests of an OpenTelemetry exporter, which has statuses of its own.
// 207 stands for 200 with one span rejected.
func spans(t *testing.T) []hostile {
	t.Helper()
	proto := []string{"Content-Type", "application/x-protobuf"}
	cases := []hostile{
		{name: "nothing", body: "", headers: proto, status: 200},
		{name: "empty object", body: "{}", status: 200},
		{name: "no message", body: "\xff\xff\xff\xff", headers: proto, status: 400},
		{name: "length beyond the end", body: "\x0a\xff\xff\xff\xff\x0f", headers: proto, status: 400},
		{name: "groups that never end", body: strings.Repeat("\x0b", 20000), headers: proto, status: 400},
		{name: "JSON said to be protobuf", body: span(``), headers: proto, status: 400},
		{name: "protobuf said to be JSON", body: "\x0a\x00", status: 400},
		{name: "not JSON", body: "{", status: 400},
		{name: "array", body: "[]", status: 400},
		{name: "two requests", body: "{}{}", status: 400},
		{name: "byte order mark", body: "\ufeff{}", status: 200},
		{name: "two byte order marks", body: "\ufeff\ufeff{}", status: 400},
		{name: "byte order mark before protobuf", body: "\ufeff", headers: proto, status: 400},
		{name: "no field of OTLP", body: `{"agent":"a"}`, status: 400},
		{name: "logs", body: `{"resourceLogs":[]}`, status: 400},
		{name: "a field of OTLP among others", body: `{"agent":"a","resourceSpans":[]}`, status: 200},
		{name: "a field of OTLP deeper down", body: `{"x":{"resourceSpans":[]}}`, status: 400},
		{name: "a field of OTLP in snake case", body: `{"resource_spans":null}`, status: 200},
		{name: "no field of OTLP in protobuf", body: "\x12\x00", headers: proto, status: 400},
		{name: "a field of OTLP in protobuf among others", body: "\x12\x00\x0a\x00", headers: proto, status: 200},
		{name: "UTF-16", body: "{}", headers: []string{"Content-Type", "application/json; charset=utf-16"}, status: 415},
		{name: "20000 deep", body: `{"resourceSpans":` + nested("[", "", "]", 20000) + `}`, status: 400},
		{name: "20000 deep where nobody looks", body: `{"x":` + nested("[", "", "]", 20000) + `}`, status: 400},
		{name: "spans that are a number", body: `{"resourceSpans":1}`, status: 400},
		{name: "100000 null spans", body: `{"resourceSpans":[{"scopeSpans":[{"spans":` + list("null", 100_000) + `}]}]}`, status: 413},
		{name: "type of neither", body: "{}", headers: []string{"Content-Type", "text/plain"}, status: 415},
		{name: "no type", body: "{}", headers: []string{"Content-Type", ""}, status: 415},
		{name: "no key", body: "{}", headers: []string{"Authorization", ""}, status: 401},
		{name: "gzip cut off", body: zip(t, "{}")[:12], headers: []string{"Content-Encoding", "gzip"}, status: 400},
		{name: "said to be gzip", body: "{}", headers: []string{"Content-Encoding", "gzip"}, status: 400},
		{name: "unknown encoding", body: "{}", headers: []string{"Content-Encoding", "zstd"}, status: 415},
		{name: "gzip bomb", body: zip(t, strings.Repeat(" ", 8<<20)), headers: []string{"Content-Encoding", "gzip"}, status: 413},
		{name: "too large", body: strings.Repeat(" ", 4<<20+1), status: 413},
		{name: "GET", method: "GET", status: 405},
		{name: "the path of logs", path: "/v1/logs", body: "{}", status: 404},
	}
	for _, c := range hostileTexts {
		cases = append(cases, hostile{name: "agent: " + c.name, body: span(spanAttribute("gen_ai.agent.name", `{"stringValue":"`+c.inner+`"}`)), status: c.span})
	}
	for value, status := range hostileSpanCounts {
		cases = append(cases, hostile{name: "tokens: " + value, body: span(spanAttribute("gen_ai.usage.input_tokens", value)), status: status})
	}
	for i := range cases {
		if cases[i].path == "" {
			cases[i].path = "/v1/traces"
		}
	}
	return cases
}

// hostileSpanCounts are values of a count of tokens in OTLP's JSON.
var hostileSpanCounts = map[string]int{
	`{"intValue":"7"}`: 200, `{"intValue":7}`: 200, `{"doubleValue":7}`: 200, `{"stringValue":"7"}`: 200,
	`{"intValue":"9007199254740992"}`: 207, `{"intValue":"-1"}`: 207, `{"doubleValue":0.5}`: 207, `{"doubleValue":-1}`: 207,
	`{"doubleValue":1e300}`: 207, `{"doubleValue":"NaN"}`: 207, `{"doubleValue":"Infinity"}`: 207, `{"stringValue":"7 "}`: 207,
	`{"stringValue":"0x7"}`: 207, `{"boolValue":true}`: 207, `{"arrayValue":{"values":[{"intValue":"7"}]}}`: 207, `{"bytesValue":"Nw=="}`: 207,
	`{"intValue":"99999999999999999999"}`: 400, `{"intValue":"7x"}`: 400, `{"intValue":[]}`: 400, `7`: 400,
}

func spanAttribute(name, value string) string { return `,{"key":"` + name + `","value":` + value + `}` }

// span is a request with one call of a model that began just now, with more
// attributes; those that are there twice are read once.
func span(more string) string {
	now := time.Now().UnixNano()
	attributes := `{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.request.model","value":{"stringValue":"gpt-4o"}}`
	if !strings.Contains(more, "gen_ai.agent.name") {
		attributes += spanAttribute("gen_ai.agent.name", `{"stringValue":"a"}`)
	}
	return fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"%016x",`+
		`"name":"chat","kind":3,"startTimeUnixNano":"%d","endTimeUnixNano":"%d","attributes":[%s]}]}]}]}`, now, now, now+1e9, attributes+more)
}
