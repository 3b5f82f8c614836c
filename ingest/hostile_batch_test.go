package ingest

import "strings"

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
		{name: "byte order mark", body: "\ufeff[" + event + `]`, status: 200},
		{name: "lines said to be JSON", body: event + "\n" + event, status: 422},
		{name: "lines", body: event + "\r\n" + event + "\r\n", headers: ndjson, status: 200},
		{name: "blank lines", body: "\n \n\t\r\n", headers: ndjson, status: 422},
		{name: "lines with one that is none", body: event + "\n" + `{"agent"` + "\n" + event, headers: ndjson, status: 207},
		{name: "an array on a line", body: `[` + event + `]`, headers: ndjson, status: 207},
		{name: "1000 lines", body: strings.Repeat(event+"\n", 1000), headers: ndjson, status: 200},
		{name: "1001 lines", body: strings.Repeat(event+"\n", 1001), headers: ndjson, status: 422},
		{name: "a million empty lines", body: strings.Repeat("\n", 1_000_000), headers: ndjson, status: 422},
		{name: "a line 20000 deep", body: event + "\n" + field("x", nested("[", "", "]", 20000)), headers: ndjson, status: 207},
		{name: "lines with a byte order mark", body: "\ufeff" + event + "\n" + event, headers: ndjson, status: 200},
		{name: "type of neither", body: event, headers: []string{"Content-Type", "text/csv"}, status: 415},
		{name: "no key", body: `[` + event + `]`, headers: []string{"Authorization", ""}, status: 401},
		{name: "GET", method: "GET", status: 405},
	}
	for i := range cases {
		cases[i].path = "/v1/track/batch"
	}
	return cases
}
