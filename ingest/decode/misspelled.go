package decode

import (
	"strings"
)

// Bounds of what is done about unknown names: a body may have tens of thousands.
const (
	maxWarnings      = 8
	maxUnknownNames  = 64 // of one event are looked at
	maxUnknownLength = 40 // in bytes
)

// eventFields are the names that the method field knows.
var eventFields = [...]string{
	"agent", "model", "provider", "input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "cost_usd", "session_id",
	"latency_ms", "metadata", "timestamp", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens", "reasoning_tokens",
	"token_accounting", "status", "error_type", "step", "parent_event_id", "user_id", "tags", "idempotency_key", "usage",
}

// unknown notes a name that no field has, if it is close to that of one: its sender believes that it counts.
func (d *decoder) unknown(name string) {
	d.unknownNames++
	if d.unknownNames > maxUnknownNames || len(d.request.warnings) == maxWarnings {
		return
	}
	if meant := closestField(name); meant != "" {
		d.request.warnings.Add(name, "is not a field and was ignored; the field is called "+meant)
	}
}

// closestField returns the field that somebody who writes name most likely means, or "".
func closestField(name string) string {
	if len(name) > maxUnknownLength {
		return ""
	}
	name = squash(name)
	best, meant := len(name), ""
	for _, field := range eventFields {
		known := squash(field)
		most, substitution := 1, 1
		switch {
		case len(known) < 5:
			substitution = 2 // "stop" is another word than "step".
		case len(known) > 7:
			most = 2
		}
		if len(name) > len(known)+most || len(known) > len(name)+most {
			continue
		}
		if d := distance(name, known, substitution); d <= most && d < best {
			best, meant = d, field
		}
	}
	return meant
}

// squash takes away how the words of a name are put together: input_tokens, inputTokens and Input-Tokens are the same.
func squash(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', '-', '.', ' ':
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// distance is how many letters are to be added, left out, exchanged with the next one, or, at the cost of substitution,
// replaced, to make b of a.
func distance(a, b string, substitution int) int {
	const size = maxUnknownLength*2 + 1 // Small letters may have more bytes than capitals.
	if len(a) >= size || len(b) >= size {
		return size
	}
	var rows [3][size]int
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, above, twoAbove := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := substitution
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], twoAbove[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}
