package ingest

import (
	"encoding/binary"
	"strings"
	"time"
)

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
		`"` + now.Format("2006-01-02t15:04:05.000z") + `"`: 200, `"` + now.Format("2006-01-02t15:04:05+00:00") + `"`: 200, `"t"`: 422, `"z"`: 422,
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
		{422, "two byte order marks", "\ufeff\ufeff" + `{"agent":"a"}`},
		{422, "byte order mark only", "\ufeff"},
		{422, "byte order mark behind a blank", " \ufeff" + `{"agent":"a"}`},
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
