package ingest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// hostile is a request that tries something, and the status that it must get.
type hostile struct {
	name    string
	path    string // POST /v1/track unless given
	method  string
	body    string
	headers []string // pairs; an empty value takes the header away
	status  int
}

// field puts the JSON text of one field into an event.
func field(name, value string) string { return `{"agent":"a","` + name + `":` + value + `}` }

// padded is an event of exactly size bytes.
func padded(size int) string {
	const head, tail = `{"agent":"a","x":"`, `"}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

func nested(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

func list(element string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// unknownFields are n fields of an event that nobody knows.
func unknownFields(n int) string {
	var b strings.Builder
	b.WriteString(`{"agent":"a"`)
	for i := range n {
		fmt.Fprintf(&b, `,"f%d":0`, i)
	}
	return b.String() + "}"
}

func utf16Text(text string, order binary.AppendByteOrder) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// hostileTexts are values of a text field, as they stand between the quotes.
var hostileTexts = []struct {
	name, inner string
	status      int
}{
	{"escaped NUL", `a\u0000`, 422},
	{"raw NUL", "a\x00", 422},
	{"raw control character", "a\x01", 422},
	{"raw tab", "a\tb", 422},
	{"raw escape", "a\x1b[31m", 422},
	{"escaped line feed", `a\nb`, 422},
	{"escaped tab", `a\tb`, 422},
	{"escaped backspace", `a\b`, 422},
	{"DEL", "a\x7f", 422},
	{"escaped DEL", `a\u007f`, 422},
	{"C1 as UTF-8", "a\u0085", 422},
	{"escaped C1", `a\u009f`, 422},
	{"C1 as a lone byte", "a\x85", 422},
	{"0xff", "a\xff", 422},
	{"overlong NUL", "a\xc0\x80", 422},
	{"overlong slash", "a\xe0\x80\xaf", 422},
	{"surrogate as UTF-8", "a\xed\xa0\x80", 422},
	{"above U+10FFFF", "a\xf4\x90\x80\x80", 422},
	{"cut off UTF-8", "a\xe2\x82", 422},
	{"stray continuation", "a\x80", 422},
	{"lone high surrogate", `a\ud800`, 422},
	{"lone low surrogate", `a\udc00`, 422},
	{"surrogates the wrong way round", `\udc00\ud800`, 422},
	{"high surrogate and a letter", `\ud800a`, 422},
	{"two high surrogates", `\ud800\ud800`, 422},
	{"surrogate pair", `\ud83d\ude00`, 200},
	{"U+10FFFF", "\U0010FFFF", 200},
	{"replacement character", "\ufffd", 200},
	{"no character", "a\uffff", 200},
	{"right-to-left override", "a\u202eb", 200},
	{"byte order mark inside", "a\ufeffb", 200},
	{"markup", `<script>alert(1)<\/script>`, 200},
	{"formula", `=cmd|' /C calc'!A0`, 200},
	{"SQL", `'; DROP TABLE events; --`, 200},
	{"path", `..\/..\/etc\/passwd`, 200},
	{"unknown escape", `a\x41`, 422},
	{"short escape", `a\u12`, 422},
	{"escape that is no number", `a\u12g4`, 422},
	{"200 characters", strings.Repeat("ü", 200), 200},
	{"201 characters", strings.Repeat("ü", 201), 422},
	{"200 escaped characters", strings.Repeat(`\ud83d\ude00`, 200), 200},
	{"201 escaped characters", strings.Repeat(`\ud83d\ude00`, 201), 422},
}

// hostileCounts are values of a count of tokens.
var hostileCounts = []struct {
	value  string
	status int
}{
	{"0", 200},
	{"-0", 200},
	{"-0.0", 200},
	{"1e3", 200},
	{"1E3", 200},
	{"1e+3", 200},
	{"1.0", 200},
	{"100e-2", 200},
	{"0e5", 200},
	{"null", 200},
	{"9007199254740991", 200},
	{"9007199254740991.0", 200},
	{"9007199254740992", 422},
	{"9223372036854775807", 422},
	{"9223372036854775808", 422},
	{"18446744073709551616", 422},
	{"1e400", 422},
	{"1e99999999999999999999", 422},
	{"1e-1", 422},
	{"0.5", 422},
	{"-1", 422},
	{"-1e3", 422},
	{"01", 422},
	{"+1", 422},
	{"0x1", 422},
	{"1_000", 422},
	{"1,000", 422},
	{".5", 422},
	{"5.", 422},
	{"1e", 422},
	{"--1", 422},
	{"1 000", 422},
	{"NaN", 422},
	{"Infinity", 422},
	{"-Infinity", 422},
	{"\u0661", 422},
	{`"1"`, 422},
	{`""`, 422},
	{"true", 422},
	{"[1]", 422},
	{"{}", 422},
	{strings.Repeat("9", 400), 422},
	{"0." + strings.Repeat("0", 400), 200},
	{"1" + strings.Repeat("0", 16), 422},
}

// hostileMetadata are values of metadata.
var hostileMetadata = []struct {
	name, value string
	status      int
}{
	{"null", `null`, 200},
	{"empty", `{}`, 200},
	{"array", `[]`, 422},
	{"text", `"{}"`, 422},
	{"number", `1`, 422},
	{"depth 8", nested(`{"a":`, `1`, `}`, 8), 200},
	{"depth 9", nested(`{"a":`, `1`, `}`, 9), 422},
	{"arrays of depth 8", `{"a":` + nested(`[`, `1`, `]`, 7) + `}`, 200},
	{"arrays of depth 9", `{"a":` + nested(`[`, `1`, `]`, 8) + `}`, 422},
	{"depth 20000", nested(`{"a":`, `1`, `}`, 20000), 422},
	{"512 nodes", `{"a":` + list("1", 510) + `}`, 200},
	{"513 nodes", `{"a":` + list("1", 511) + `}`, 422},
	{"64 KiB", `{"a":"` + strings.Repeat("x", 64<<10-8) + `"}`, 200},
	{"64 KiB and a byte", `{"a":"` + strings.Repeat("x", 64<<10-7) + `"}`, 422},
	{"a number of 32 characters", `{"a":0.` + strings.Repeat("1", 30) + `}`, 200},
	{"a number of 33 characters", `{"a":0.` + strings.Repeat("1", 31) + `}`, 422},
	{"exponent 308", `{"a":1e308}`, 200},
	{"exponent 309", `{"a":1e309}`, 422},
	{"exponent -308", `{"a":1E-308}`, 200},
	{"exponent -309", `{"a":1e-309}`, 422},
	{"a number that blows up", `{"a":[1e131071]}`, 422},
	{"minus zero", `{"a":-0}`, 200},
	{"NaN", `{"a":NaN}`, 422},
	{"leading zero", `{"a":01}`, 422},
	{"NUL in a value", `{"a":["\u0000"]}`, 422},
	{"NUL in a name", `{"\u0000":1}`, 422},
	{"control character in a name", `{"a\n":1}`, 422},
	{"lone surrogate", `{"a":"\ud800"}`, 422},
	{"lone surrogate in a name", `{"\udfff":1}`, 422},
	{"invalid UTF-8", "{\"a\":\"\xff\"}", 422},
	{"a name twice", `{"a":1,"a":1}`, 422},
	{"a name twice, once escaped", `{"a":1,"\u0061":1}`, 422},
	{"a name twice, deep", `{"a":[{"b":{"c":1,"c":2}}]}`, 422},
	{"empty name", `{"":1}`, 200},
	{"prototype", `{"__proto__":{"x":1},"constructor":null}`, 200},
	{"trailing comma", `{"a":1,}`, 422},
	{"bare name", `{a:1}`, 422},
}

// singles are bodies of one event.
func singles() []hostile {
	var cases []hostile
	add := func(status int, name, body string) {
		cases = append(cases, hostile{name: name, body: body, status: status})
	}
	for _, c := range hostileTexts {
		add(c.status, "agent: "+c.name, `{"agent":"`+c.inner+`"}`)
	}
	for _, name := range []string{"model", "provider", "session_id", "step", "user_id", "error_type", "idempotency_key", "status", "token_accounting", "timestamp", "parent_event_id"} {
		add(422, "NUL in "+name, field(name, `"ok\u0000"`))
		add(422, "number as "+name, field(name, `7`))
		add(422, "invalid UTF-8 in "+name, field(name, "\"\xff\""))
		add(200, "null as "+name, field(name, `null`))
	}
	for _, c := range hostileCounts {
		add(c.status, "input_tokens: "+c.value[:min(len(c.value), 24)], field("input_tokens", c.value))
	}
	for _, c := range hostileMetadata {
		add(c.status, "metadata: "+c.name, field("metadata", c.value))
	}
	for value, status := range map[string]int{
		"0": 200, "-0": 200, "1e6": 200, "1000000.0000000001": 200, "1000000.000000001": 422, "1e-400": 200, "0.1234567895": 200, "-0.000000001": 422,
		"1e7": 422, "1e400": 422, "NaN": 422, `"1"`: 422, "[]": 422, "1e-99999": 422, "1.": 422, "01": 422,
	} {
		add(status, "cost_usd: "+value, field("cost_usd", value))
	}
	now := time.Now().UTC()
	for value, status := range map[string]int{
		`""`: 200, `"` + now.Format(time.RFC3339Nano) + `"`: 200, `"` + now.Format("2006-01-02T15:04:05+00:00") + `"`: 200,
		`"` + now.Add(10*time.Minute).Format(time.RFC3339) + `"`: 422, `"` + now.Add(-31*24*time.Hour).Format(time.RFC3339) + `"`: 422,
		`"2026-02-30T00:00:00Z"`: 422, `"2026-01-01T00:00:60Z"`: 422, `"9999999-01-01T00:00:00Z"`: 422, `"0000-00-00T00:00:00Z"`: 422, `1767225600`: 422,
		`"` + now.Format("2006-01-02 15:04:05") + `"`: 422, `"-1"`: 422, `"now()"`: 422,
	} {
		add(status, "timestamp: "+value, field("timestamp", value))
	}
	for value, status := range map[string]int{
		`"evt_00000000000000000000000001"`: 200, `""`: 200, `"evt_8zzzzzzzzzzzzzzzzzzzzzzzzz"`: 422, `"evt_0000000000000000000000000O"`: 422,
		`"EVT_00000000000000000000000001"`: 422, `"ses_00000000000000000000000001"`: 422, `"evt_"`: 422, `"evt_000000000000000000000000011"`: 422,
	} {
		add(status, "parent_event_id: "+value, field("parent_event_id", value))
	}
	for value, status := range map[string]int{
		`[]`: 200, `null`: 200, list(`"x"`, 16): 200, list(`"x"`, 17): 422, list(`"x"`, 20000): 422, `["` + strings.Repeat("ü", 64) + `"]`: 200,
		`["` + strings.Repeat("ü", 65) + `"]`: 422, `[""]`: 422, `[null]`: 422, `[1]`: 422, `[["x"]]`: 422, `[{"a":1}]`: 422, `["\u0000"]`: 422, `"x"`: 422, `{"x":1}`: 422,
	} {
		add(status, "tags: "+value[:min(len(value), 24)], field("tags", value))
	}
	for _, c := range []struct {
		status     int
		name, body string
	}{
		{422, "empty", ``},
		{422, "blank", "  \t "},
		{422, "null", `null`},
		{422, "number", `1`},
		{422, "text", `"a"`},
		{422, "array", `[{"agent":"a"}]`},
		{422, "empty object", `{}`},
		{422, "two objects", `{"agent":"a"}{"agent":"a"}`},
		{422, "trailing text", `{"agent":"a"}x`},
		{422, "trailing NUL", "{\"agent\":\"a\"}\x00"},
		{422, "trailing comma", `{"agent":"a",}`},
		{422, "leading comma", `{,"agent":"a"}`},
		{422, "line comment", `{"agent":"a"//x` + "}"},
		{422, "block comment", `{/*x*/"agent":"a"}`},
		{422, "single quotes", `{'agent':'a'}`},
		{422, "bare name", `{agent:"a"}`},
		{422, "cut off in a name", `{"age`},
		{422, "cut off in a value", `{"agent":"a`},
		{422, "cut off after a colon", `{"agent":`},
		{422, "wrong bracket", `{"agent":"a"]`},
		{422, "no colon", `{"agent" "a"}`},
		{422, "number as name", `{1:"a"}`},
		{422, "capital literal", `{"agent":"a","x":True}`},
		{422, "byte order mark", "\ufeff" + `{"agent":"a"}`},
		{422, "UTF-16, little end", utf16Text(`{"agent":"a"}`, binary.LittleEndian)},
		{422, "UTF-16, big end", utf16Text(`{"agent":"a"}`, binary.BigEndian)},
		{422, "no-break space in front", "\u00a0" + `{"agent":"a"}`},
		{422, "form feed in front", "\f" + `{"agent":"a"}`},
		{422, "record separator in front", "\x1e" + `{"agent":"a"}`},
		{200, "blanks around", " \t" + `{ "agent" : "a" }` + "\r  "},
		{422, "twice", `{"agent":"a","agent":"a"}`},
		{422, "twice, once escaped", `{"agent":"a","ag\u0065nt":"b"}`},
		{200, "escaped name", `{"ag\u0065nt":"a"}`},
		{422, "other case", `{"AGENT":"a"}`},
		{422, "name with a Kelvin sign", `{"agent":"a","input_to` + "\u212a" + `ens":1,"input_to` + "\u212a" + `ens":2}`},
		{200, "name with a Kelvin sign once", `{"agent":"a","input_to` + "\u212a" + `ens":-1}`},
		{422, "unknown name twice", `{"agent":"a","x":1,"x":1}`},
		{422, "unknown name twice, nested", `{"agent":"a","x":[{"y":1,"y":1}]}`},
		{200, "NUL in an unknown field", `{"agent":"a","x":"\u0000"}`},
		{422, "lone surrogate in an unknown field", `{"agent":"a","x":"\ud800"}`},
		{422, "invalid UTF-8 in an unknown name", "{\"agent\":\"a\",\"\xff\":1}"},
		{200, "unknown arrays 9000 deep", field("x", nested("[", "", "]", 9000))},
		{422, "unknown arrays 20000 deep", field("x", nested("[", "", "]", 20000))},
		{422, "unknown objects 20000 deep", field("x", nested(`{"a":`, "1", "}", 20000))},
		{422, "20000 brackets that never end", field("x", strings.Repeat("[", 20000))},
		{200, "20000 unknown fields", unknownFields(20000)},
		{413, "100000 unknown fields", unknownFields(100000)},
		{200, "256 KiB", padded(256 << 10)},
		{413, "256 KiB and a byte", padded(256<<10 + 1)},
		{413, "1 MiB", padded(1 << 20)},
		{200, "unknown number without an end in sight", field("x", strings.Repeat("9", 200_000))},
		{422, "spaces only as agent", `{"agent":"\u00a0\u3000 "}`},
		{200, "session of 200", field("session_id", `"`+strings.Repeat("s", 200)+`"`)},
		{422, "session of 201", field("session_id", `"`+strings.Repeat("s", 201)+`"`)},
		{200, "empty session", field("session_id", `""`)},
		{422, "empty key", field("idempotency_key", `""`)},
		{200, "key of 255", field("idempotency_key", `"`+strings.Repeat("ü", 255)+`"`)},
		{422, "key of 256", field("idempotency_key", `"`+strings.Repeat("ü", 256)+`"`)},
		{422, "status in capitals", field("status", `"OK"`)},
		{422, "names that contradict", `{"agent":"a","input_tokens":1,"prompt_tokens":2}`},
		{422, "more cached than there is", `{"agent":"a","input_tokens":1,"cache_read_tokens":1,"cache_write_tokens":1}`},
		{422, "caches that overflow", `{"agent":"a","token_accounting":"exclusive","input_tokens":9007199254740991,"cache_read_tokens":9007199254740991,"cache_write_tokens":9007199254740991}`},
		{422, "more reasoning than output", `{"agent":"a","output_tokens":1,"reasoning_tokens":2}`},
		{422, "costs more than a million", `{"agent":"a","model":"gpt-4o","input_tokens":9007199254740991,"output_tokens":9007199254740991}`},
		{422, "usage that is no object", field("usage", `[]`)},
		{422, "usage of nobody", field("usage", `{"tokens_used":5}`)},
		{422, "usage 20000 deep", field("usage", nested(`{"tokens":`, "1", "}", 20000))},
		{200, "usage with 10000 unknown names", field("usage", `{"prompt_tokens":1,`+strings.TrimPrefix(unknownFields(10000), `{"agent":"a",`))},
		{422, "usage with a fraction", field("usage", `{"prompt_tokens":1e-1}`)},
		{422, "usage that overflows", field("usage", `{"inputTokens":9007199254740991,"cacheReadInputTokens":1}`)},
		{422, "usage list that overflows", field("usage", `{"inputTokens":1,"cacheWriteInputTokens":1,"cacheDetails":`+list(`{"ttl":"1h","inputTokens":9007199254740991}`, 3000)+`}`)},
		{422, "usage with a name twice, once escaped", field("usage", `{"prompt_tokens":1,"prompt\u005ftokens":1}`)},
	} {
		add(c.status, c.name, c.body)
	}
	return cases
}

// requests are what is tried besides the body of one event.
func requests(t *testing.T) []hostile {
	t.Helper()
	const event = `{"agent":"a"}`
	gz := zip(t, event)
	bomb := zip(t, `{"agent":"`+strings.Repeat("a", 8<<20)+`"}`)
	gzipped := []string{"Content-Encoding", "gzip"}
	return []hostile{
		{name: "gzip", body: gz, headers: gzipped, status: 200},
		{name: "gzip in capitals", body: gz, headers: []string{"Content-Encoding", "GZIP"}, status: 200},
		{name: "gzip bomb of 8 MiB", body: bomb, headers: gzipped, status: 413},
		{name: "gzip bomb in a batch", path: "/v1/track/batch", body: bomb, headers: gzipped, status: 413},
		{name: "gzip of just too much", body: zip(t, padded(256<<10+1)), headers: gzipped, status: 413},
		{name: "gzip of just enough", body: zip(t, padded(256<<10)), headers: gzipped, status: 200},
		{name: "gzip cut off", body: gz[:len(gz)-6], headers: gzipped, status: 422},
		{name: "gzip header only", body: gz[:10], headers: gzipped, status: 422},
		{name: "gzip with a wrong sum", body: gz[:len(gz)-8] + "\x00\x00\x00\x00" + gz[len(gz)-4:], headers: gzipped, status: 422},
		{name: "gzip and garbage", body: gz + "garbage", headers: gzipped, status: 422},
		{name: "gzip twice", body: zip(t, gz), headers: gzipped, status: 422},
		{name: "gzip of two parts", body: zip(t, `{"agent":`) + zip(t, `"a"}`), headers: gzipped, status: 200},
		{name: "gzip of nothing", body: zip(t, ""), headers: gzipped, status: 422},
		{name: "gzip of nothing at all", body: "", headers: gzipped, status: 422},
		{name: "said to be gzip", body: event, headers: gzipped, status: 422},
		{name: "gzip that was not said", body: gz, status: 422},
		{name: "two encodings", body: gz, headers: []string{"Content-Encoding", "gzip, gzip"}, status: 415},
		{name: "deflate", body: event, headers: []string{"Content-Encoding", "deflate"}, status: 415},
		{name: "unknown encoding", body: event, headers: []string{"Content-Encoding", "\"; rm -rf /"}, status: 415},
		{name: "identity", body: event, headers: []string{"Content-Encoding", "identity"}, status: 200},

		{name: "text", body: event, headers: []string{"Content-Type", "text/plain"}, status: 415},
		{name: "form", body: "agent=a", headers: []string{"Content-Type", "multipart/form-data; boundary=x"}, status: 415},
		{name: "nearly JSON", body: event, headers: []string{"Content-Type", "application/jsonp"}, status: 415},
		{name: "JSON of a kind", body: event, headers: []string{"Content-Type", "application/cloudevents+json; charset=utf-8"}, status: 200},
		{name: "JSON in capitals", body: event, headers: []string{"Content-Type", "APPLICATION/JSON"}, status: 200},
		{name: "no type", body: event, headers: []string{"Content-Type", ""}, status: 200},

		{name: "no key", body: event, headers: []string{"Authorization", ""}, status: 401},
		{name: "Basic", body: event, headers: []string{"Authorization", "Basic b3V0bGF5Og=="}, status: 401},
		{name: "scheme only", body: event, headers: []string{"Authorization", "Bearer"}, status: 401},
		{name: "blank key", body: event, headers: []string{"Authorization", "Bearer  "}, status: 401},
		{name: "long key", body: event, headers: []string{"Authorization", "Bearer outlay_live_" + strings.Repeat("a", 5000)}, status: 401},
		{name: "a token", body: event, headers: []string{"Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0."}, status: 401},
		{name: "NUL in the key", body: event, headers: []string{"Authorization", "Bearer outlay_live_\u00a0\u00ff"}, status: 401},

		{name: "empty key header", body: event, headers: []string{"Idempotency-Key", " "}, status: 422},
		{name: "key header of 255", body: event, headers: []string{"Idempotency-Key", strings.Repeat("k", 255)}, status: 200},
		{name: "key header of 256", body: event, headers: []string{"Idempotency-Key", strings.Repeat("k", 256)}, status: 422},
		{name: "key header that is not UTF-8", body: event, headers: []string{"Idempotency-Key", "\xff\xfe"}, status: 422},
		{name: "key header with a tab", body: event, headers: []string{"Idempotency-Key", "a\tb"}, status: 422},
		{name: "key header against the body", body: field("idempotency_key", `"x"`), headers: []string{"Idempotency-Key", "y"}, status: 422},
		{name: "long request id", body: event, headers: []string{"X-Request-Id", strings.Repeat("x", 8000)}, status: 200},
		{name: "forwarded for", body: event, headers: []string{"X-Forwarded-For", "127.0.0.1, ::1"}, status: 200},
		{name: "method override", body: event, headers: []string{"X-HTTP-Method-Override", "DELETE"}, status: 200},

		{name: "GET", method: "GET", status: 405},
		{name: "PUT", method: "PUT", body: event, status: 405},
		{name: "DELETE", method: "DELETE", status: 405},
		{name: "PATCH", method: "PATCH", body: event, status: 405},
		{name: "OPTIONS", method: "OPTIONS", status: 405},
		{name: "TRACE", method: "TRACE", status: 405},
		{name: "a method of their own", method: "TRACK", body: event, status: 405},
		{name: "a method in small letters", method: "post", body: event, status: 405},

		{name: "trailing slash", path: "/v1/track/", body: event, status: 404},
		{name: "two slashes", path: "/v1//track", body: event, status: 404},
		{name: "capitals", path: "/V1/TRACK", body: event, status: 404},
		{name: "encoded letter", path: "/v1/%74rack", body: event, status: 200},
		{name: "encoded slash at the end", path: "/v1/track%2f", body: event, status: 404},
		{name: "encoded NUL", path: "/v1/track%00", body: event, status: 404},
		{name: "parent folder", path: "/v1/x/../track", body: event, status: 404},
		{name: "encoded parent folder", path: "/v1/x/%2e%2e/track", body: event, status: 404},
		{name: "parameter", path: "/v1/track;x=1", body: event, status: 404},
		{name: "query", path: "/v1/track?agent=b&agent=%00", body: event, status: 200},
		{name: "not UTF-8", path: "/v1/track%ff", body: event, status: 404},
		{name: "nowhere", path: "/", body: event, status: 404},
		{name: "metrics", path: "/metrics", method: "GET", status: 404},
		{name: "profiles", path: "/debug/pprof/", method: "GET", status: 404},
	}
}

// batches are bodies of several events; those of 200 and 207 say nothing of each.
func batches() []hostile {
	const event = `{"agent":"a"}`
	ndjson := []string{"Content-Type", "application/x-ndjson"}
	cases := []hostile{
		{name: "empty array", body: `[]`, status: 422},
		{name: "empty", body: ``, status: 422},
		{name: "object", body: event, status: 422},
		{name: "null", body: `null`, status: 422},
		{name: "1000 events", body: list(event, 1000), status: 200},
		{name: "1001 events", body: list(event, 1001), status: 422},
		{name: "100000 numbers", body: list("1", 100_000), status: 422},
		{name: "what are no events", body: `[1,null,"x",[],true,` + event + `]`, status: 207},
		{name: "an array in an array", body: `[[` + event + `]]`, status: 207},
		{name: "no comma", body: `[` + event + event + `]`, status: 422},
		{name: "two commas", body: `[` + event + `,,` + event + `]`, status: 422},
		{name: "trailing comma", body: `[` + event + `,]`, status: 422},
		{name: "no end", body: `[` + event, status: 422},
		{name: "two arrays", body: `[` + event + `][` + event + `]`, status: 422},
		{name: "20000 deep", body: nested("[", "", "]", 20000), status: 422},
		{name: "one 20000 deep", body: `[` + event + `,` + field("x", nested("[", "", "]", 20000)) + `]`, status: 422},
		{name: "one too large", body: `[` + event + `,` + padded(256<<10+1) + `]`, status: 207},
		{name: "one with 100000 unknown fields", body: `[` + event + `,` + unknownFields(100000) + `]`, status: 207},
		{name: "one with a name twice", body: `[` + event + `,{"agent":"a","agent":"a"}]`, status: 207},
		{name: "one with invalid UTF-8", body: `[` + event + ",{\"agent\":\"\xff\"}]", status: 207},
		{name: "one with a lone surrogate", body: `[` + event + `,{"agent":"\ud800"}]`, status: 207},
		{name: "one with a raw NUL", body: `[` + event + ",{\"agent\":\"\x00\"}]", status: 422},
		{name: "4 MiB and a byte", body: `[` + event + strings.Repeat(" ", 4<<20-len(event)-1) + `]`, status: 413},
		{name: "4 MiB", body: `[` + event + strings.Repeat(" ", 4<<20-len(event)-2) + `]`, status: 200},
		{name: "byte order mark", body: "\ufeff[" + event + `]`, status: 422},
		{name: "lines said to be JSON", body: event + "\n" + event, status: 422},
		{name: "lines", body: event + "\r\n" + event + "\r\n", headers: ndjson, status: 200},
		{name: "blank lines", body: "\n \n\t\r\n", headers: ndjson, status: 422},
		{name: "lines with one that is none", body: event + "\n" + `{"agent"` + "\n" + event, headers: ndjson, status: 207},
		{name: "an array on a line", body: `[` + event + `]`, headers: ndjson, status: 207},
		{name: "1000 lines", body: strings.Repeat(event+"\n", 1000), headers: ndjson, status: 200},
		{name: "1001 lines", body: strings.Repeat(event+"\n", 1001), headers: ndjson, status: 422},
		{name: "a million empty lines", body: strings.Repeat("\n", 1_000_000), headers: ndjson, status: 422},
		{name: "a line 20000 deep", body: event + "\n" + field("x", nested("[", "", "]", 20000)), headers: ndjson, status: 207},
		{name: "lines with a byte order mark", body: "\ufeff" + event + "\n" + event, headers: ndjson, status: 207},
		{name: "type of neither", body: event, headers: []string{"Content-Type", "text/csv"}, status: 415},
		{name: "no key", body: `[` + event + `]`, headers: []string{"Authorization", ""}, status: 401},
		{name: "GET", method: "GET", status: 405},
	}
	for i := range cases {
		cases[i].path = "/v1/track/batch"
	}
	return cases
}

// spans are requests of an OpenTelemetry exporter, which has statuses of its own.
func spans(t *testing.T) []hostile {
	t.Helper()
	proto := []string{"Content-Type", "application/x-protobuf"}
	cases := []hostile{
		{name: "nothing", body: "", headers: proto, status: 200},
		{name: "empty object", body: "{}", status: 200},
		{name: "no message", body: "\xff\xff\xff\xff", headers: proto, status: 400},
		{name: "length beyond the end", body: "\x0a\xff\xff\xff\xff\x0f", headers: proto, status: 400},
		{name: "groups that never end", body: strings.Repeat("\x0b", 20000), headers: proto, status: 400},
		{name: "not JSON", body: "{", status: 400},
		{name: "array", body: "[]", status: 400},
		{name: "20000 deep", body: `{"resourceSpans":` + nested("[", "", "]", 20000) + `}`, status: 400},
		{name: "type of neither", body: "{}", headers: []string{"Content-Type", "text/plain"}, status: 415},
		{name: "no key", body: "{}", headers: []string{"Authorization", ""}, status: 401},
		{name: "gzip cut off", body: zip(t, "{}")[:12], headers: []string{"Content-Encoding", "gzip"}, status: 400},
		{name: "gzip bomb", body: zip(t, strings.Repeat(" ", 8<<20)), headers: []string{"Content-Encoding", "gzip"}, status: 413},
		{name: "too large", body: strings.Repeat(" ", 4<<20+1), status: 413},
		{name: "GET", method: "GET", status: 405},
	}
	for i := range cases {
		cases[i].path = "/v1/traces"
	}
	return cases
}

// Everything that somebody may try gets the status that is documented for it, on
// each endpoint, and an answer that is JSON. Nothing gets a 5xx.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	tried := 0
	try := func(t *testing.T, c hostile) answer {
		t.Helper()
		tried++
		method, path := cmp.Or(c.method, "POST"), cmp.Or(c.path, "/v1/track")
		r := f.do(t, method, path, []byte(c.body), f.headers(c)...)
		if r.status != c.status {
			t.Errorf("%s %s, %s: status %d, want %d: %.300s", method, path, c.name, r.status, c.status, fmt.Sprint(r.body))
		}
		return r
	}
	for _, c := range singles() {
		for _, c.path = range []string{"/v1/track", "/v1/events"} {
			r := try(t, c)
			if (r.body["tracked"] == true) != (c.status == 200) || c.status != 200 && r.body["code"] == nil {
				t.Errorf("%s: status %d with %v", c.name, r.status, r.body)
			}
		}
	}
	tried += tryInBatches(t, f, singles())
	for _, c := range append(requests(t), batches()...) {
		try(t, c)
	}
	for _, c := range spans(t) {
		tried++
		if status, _, _ := f.send(t, cmp.Or(c.method, "POST"), c.path, []byte(c.body), f.headers(c)...); status != c.status {
			t.Errorf("%s, %s: status %d, want %d", c.path, c.name, status, c.status)
		}
	}
	t.Logf("%d requests", tried)
}

func (f *fixture) headers(c hostile) []string {
	return append([]string{"Authorization", "Bearer " + f.secret, "Content-Type", "application/json"}, c.headers...)
}

// tryInBatches sends bodies of one event as the lines of batches, between good ones:
// each gets the status that it gets alone, and costs the others nothing. It returns
// how many it sent.
func tryInBatches(t *testing.T, f *fixture, cases []hostile) (tried int) {
	t.Helper()
	const event = `{"agent":"a"}`
	var lines bytes.Buffer
	var want []hostile
	flush := func() {
		r := f.post(t, "/v1/track/batch", lines.String(), "Content-Type", "application/x-ndjson")
		results, _ := r.body["results"].([]any)
		if len(results) != len(want) {
			t.Fatalf("a batch of %d: %d %.300s", len(want), r.status, fmt.Sprint(r.body))
		}
		for i, c := range want {
			if status := fmt.Sprint(results[i].(map[string]any)["status"]); status != fmt.Sprint(c.status) {
				t.Errorf("in a batch, %s: %.300s, want %d", c.name, fmt.Sprint(results[i]), c.status)
			}
		}
		lines.Reset()
		want = want[:0]
	}
	for _, c := range cases {
		if strings.TrimSpace(c.body) == "" {
			continue // A blank line is no event.
		}
		if lines.Len()+len(c.body) > 3<<20 {
			flush()
		}
		fmt.Fprintf(&lines, "%s\n%s\n", c.body, event)
		want = append(want, c, hostile{name: "a good one after " + c.name, status: 200})
		tried++
	}
	flush()
	return tried
}

// A body is judged, not trusted: taking it costs a multiple of its size at most.
func TestHostileInputTakesLittleMemory(t *testing.T) {
	body := []byte(field("metadata", `{"a":`+list("1e131071", 7000)+`}`))
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r request
			if err := decode(body, &r); err == nil {
				b.Fatal("accepted")
			}
		}
	}).AllocedBytesPerOp()
	if limit := int64(4 * len(body)); allocated > limit {
		t.Errorf("refusing %d bytes allocates %d, want at most %d", len(body), allocated, limit)
	}
}
