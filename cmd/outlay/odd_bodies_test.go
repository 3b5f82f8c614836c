package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// oddBodies makes bodies of events whose values are at and beyond the edges of what
// is allowed. The same seed makes the same ones.
type oddBodies struct {
	seed uint64
	made int
	r    *rand.Rand
}

func newOddBodies(seed uint64) *oddBodies {
	return &oddBodies{seed: seed, r: rand.New(rand.NewPCG(seed, 1))}
}

func (o *oddBodies) next() string {
	o.made++
	fields := []string{`"agent":` + o.text(200)}
	for _, name := range []string{"model", "provider", "session_id", "step", "user_id", "error_type"} {
		if o.r.IntN(4) == 0 {
			fields = append(fields, `"`+name+`":`+o.text(200))
		}
	}
	for _, name := range []string{"output_tokens", "latency_ms", "cost_usd"} {
		if o.r.IntN(4) == 0 {
			fields = append(fields, `"`+name+`":`+o.number())
		}
	}
	if o.r.IntN(4) == 0 {
		// No two are the same: a repeated key is stored once.
		fields = append(fields, fmt.Sprintf(`"idempotency_key":"%d %s`, o.made, o.text(200)[1:]))
	}
	switch o.r.IntN(4) {
	case 0:
		fields = append(fields, `"input_tokens":`+o.number())
	case 1:
		fields = append(fields, `"token_accounting":"exclusive","input_tokens":`+o.number()+`,"cache_read_tokens":`+o.number()+`,"cache_write_1h_tokens":`+o.number())
	case 2:
		fields = append(fields, `"model":"gpt-4o"`, `"usage":{"prompt_tokens":`+o.number()+`,"completion_tokens":`+o.number()+`}`)
	}
	if o.r.IntN(3) == 0 {
		fields = append(fields, `"metadata":`+o.object(o.r.IntN(10)))
	}
	if o.r.IntN(5) == 0 {
		fields = append(fields, `"tags":[`+o.text(64)+`,`+o.text(64)+`]`)
	}
	if o.r.IntN(5) == 0 {
		at := time.Now().Add(time.Duration(o.r.Int64N(int64(31*24*time.Hour))) * -1)
		fields = append(fields, `"timestamp":"`+at.Format(time.RFC3339Nano)+`"`)
	}
	if o.r.IntN(5) == 0 {
		fields = append(fields, `"status":"error","parent_event_id":"`+schema.NewID(time.Now()).Text(schema.EventPrefix)+`"`)
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// oddRunes are one of a kind each: planes, directions, widths, what joins and what is
// nothing.
var oddRunes = []string{
	"a", "Z", " ", "'", `\"`, `\\`, `\/`, "%", "ß", "é", "e\u0301", "\u00a0", "\u0300", "\u05d0", "\u0627",
	"\u3000", "\ue000", "\ufdd0", "\ufffd", "\ufffe", "\uffff", "\U0001F600", "\U0001F1E9", "\U0010FFFF", `\u00e9`, `\ud83d\ude00`, `\uffff`,
	`\udbff\udfff`, "漢", "𝔘", "$", "{", "}", "<", "&", ";",
}

// hiddenRunes are what no name may hold.
var hiddenRunes = []string{"\u00ad", "\u200b", "\u200d", "\u202e", "\u2028", "\u2029", "\u2066", "\ufeff", "\ufe0f", "\U000E0041", `\u200e`}

// badRunes are what no text may hold.
var badRunes = []string{`\u0000`, "\x00", `\n`, "\x7f", "\u0085", `\u009f`, `\ud800`, `\udc00`, "\xff", "\xed\xa0\x80", "\xc0\x80", "\t"}

// text is a JSON string of about limit characters at most, seldom more.
func (o *oddBodies) text(limit int) string {
	n := 1 + o.r.IntN(12)
	if o.r.IntN(20) == 0 {
		n = limit - 1 + o.r.IntN(3)
	}
	var b strings.Builder
	for range n {
		b.WriteString(oddRunes[o.r.IntN(len(oddRunes))])
	}
	if o.r.IntN(30) == 0 {
		b.WriteString(hiddenRunes[o.r.IntN(len(hiddenRunes))])
	}
	if o.r.IntN(30) == 0 {
		b.WriteString(badRunes[o.r.IntN(len(badRunes))])
	}
	return `"` + b.String() + `"`
}

// oddNumbers are numbers at the edges of what something takes.
var oddNumbers = []string{
	"0", "-0", "1", "-1", "1e3", "1E+2", "1.0", "0.5", "1e-9", "1e-308", "1e308", "1e309", "-1e308", "1.7976931348623157e308", "5e-324", "9007199254740991", "9007199254740992",
	"9223372036854775807", "9223372036854775808", "1000000", "999999.999999999", "0.0000000005", "0.00000000000000000000000000001", "1e131071", "12345678901234567890123456789012",
	"1e0308", "0e999999", "-0.0e-0", "01", "NaN",
}

func (o *oddBodies) number() string {
	if o.r.IntN(3) > 0 {
		return strconv.Itoa(o.r.IntN(100_000))
	}
	return oddNumbers[o.r.IntN(len(oddNumbers))]
}

// object is a JSON object nested at most depth deep.
func (o *oddBodies) object(depth int) string {
	var members []string
	for i := range o.r.IntN(5) {
		members = append(members, fmt.Sprintf(`"%d%s:%s`, i, o.text(20)[1:], o.value(depth-1)))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (o *oddBodies) value(depth int) string {
	if depth > 0 && o.r.IntN(2) == 0 {
		if o.r.IntN(2) == 0 {
			return o.object(depth)
		}
		return "[" + o.value(depth-1) + "," + o.value(depth-1) + "]"
	}
	switch o.r.IntN(6) {
	case 0:
		return "null"
	case 1:
		return "true"
	case 2, 3:
		return o.number()
	}
	return o.text(1000)
}
