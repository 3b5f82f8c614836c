package otlp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// scannedJSON holds what scanJSON takes to what the reader of messages says.
func scannedJSON(t *testing.T, body []byte) (taken bool) {
	t.Helper()
	var scanned, read findings
	if !scanJSON(body, &scanned) {
		return false
	}
	if err := readMessages(body, &read); err != nil {
		t.Fatalf("scanned, but refused by the messages: %v", err)
	}
	if diff := cmp.Diff(read.export(), scanned.export(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the messages say otherwise (-messages +scan):\n%s", diff)
	}
	return true
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

// What exporters write is read in one pass, and as OpenTelemetry's own messages say.
func TestUsualJSONIsScanned(t *testing.T) {
	t.Parallel()
	for name, body := range usualJSON() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !scannedJSON(t, []byte(body)) {
				t.Errorf("not scanned: %s", body)
			}
		})
	}
	written, err := new(ptrace.JSONMarshaler).MarshalTraces(tracesOf(spanOf(1, usageOf("chat", 10, 5)), inside(1, spanOf(2, usageOf("chat", 10, 5)))))
	if err != nil {
		t.Fatal(err)
	}
	if !scannedJSON(t, written) {
		t.Errorf("not scanned: %s", written)
	}
}

// What is out of the ordinary is left to the reader of messages.
func TestOddJSONIsNotScanned(t *testing.T) {
	t.Parallel()
	usual := usualJSON()["a call"]
	replace := func(old, with string) string {
		if !strings.Contains(usual, old) {
			t.Fatalf("no %s in %s", old, usual)
		}
		return strings.Replace(usual, old, with, 1)
	}
	for name, body := range map[string]string{
		"snake case":              replace("resourceSpans", "resource_spans"),
		"unknown field":           replace(`"flags"`, `"colour"`),
		"a field twice":           replace(`"flags":257`, `"kind":3`),
		"an attribute's key only": replace(`{"key":"gen_ai.request.model","value":{"stringValue":"gpt-4o"}}`, `{"key":"x"}`),
		"two values":              replace(`{"intValue":3}`, `{"intValue":3,"stringValue":"3"}`),
		"null":                    replace(`"traceState":"a=b"`, `"traceState":null`),
		"an escape in the model":  replace("gpt-4o", `gpt\/4o`),
		"an escaped name":         replace("traceState", `trace\/State`),
		"a code point":            replace("a=b", `\u0041`),
		"a line break":            replace("a=b", "a\nb"),
		"no UTF-8":                replace("a=b", "a\xff"),
		"a number too long":       replace(`"12"`, `"12345678901234567890"`),
		"a leading zero":          replace(`"12"`, `"012"`),
		"an exponent":             replace(`{"intValue":3}`, `{"doubleValue":3e1}`),
		"a kind in words":         replace(`"kind":3`, `"kind":"SPAN_KIND_CLIENT"`),
		"a short id":              replace("5b8e", "5b"),
		"ids in base64":           replace("5b8efff798038103d269b633813fc60c", "W47/95gDgQPSabYzgT/GDA=="),
		"bytes":                   replace(`{"stringValue":"gpt-4o"}`, `{"bytesValue":"AA=="}`),
		"cut off":                 usual[:len(usual)-1],
		"two bodies":              usual + usual,
		"an array":                "[" + usual + "]",
		"too deep":                replace(`{"intValue":3}`, strings.Repeat(`{"arrayValue":{"values":[`, 20)+strings.Repeat(`]}}`, 20)),
		"too many":                `{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Repeat(`{},`, MaxSpans) + `{}]}]}]}`,
		"nothing":                 "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if scannedJSON(t, []byte(body)) {
				t.Errorf("scanned: %.2000s", body)
			}
		})
	}
}
