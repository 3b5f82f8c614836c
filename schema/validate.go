package schema

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Fault is one thing that is wrong with what a client sent.
type Fault struct {
	// Field is the name as the client wrote it.
	Field string `json:"field"`
	// Message completes the sentence that starts with the field.
	Message string `json:"message"`
}

// Faults collects every fault of one event, so that a client hears of all of
// them at once.
type Faults []Fault

// Add notes that field has a fault.
func (f *Faults) Add(field, message string) { *f = append(*f, Fault{field, message}) }

// Has reports whether field already has a fault.
func (f Faults) Has(field string) bool {
	for _, fault := range f {
		if fault.Field == field {
			return true
		}
	}
	return false
}

// CheckText notes what is wrong with an optional text of at most limit
// characters: invalid UTF-8, control characters, or too long.
func (f *Faults) CheckText(field, text string, limit int) {
	if text != "" {
		f.checkText(field, text, limit)
	}
}

func (f *Faults) checkText(field, text string, limit int) {
	if message := TextFault(text, limit); message != "" {
		f.Add(field, message)
	}
}

// TextFault returns what is wrong with text of at most limit characters, or "".
// What passes can be stored by PostgreSQL and drawn in a page and a PDF.
func TextFault(text string, limit int) string {
	if plainASCII(text) {
		if len(text) > limit {
			return fmt.Sprintf("must have at most %d characters", limit)
		}
		return ""
	}
	if !utf8.ValidString(text) {
		return "must be valid UTF-8"
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return "must not contain control characters"
	}
	if utf8.RuneCountInString(text) > limit {
		return fmt.Sprintf("must have at most %d characters", limit)
	}
	return ""
}

// plainASCII reports whether text is printable ASCII: the common case, decided
// without decoding runes.
func plainASCII(text string) bool {
	for len(text) >= 8 {
		const ones, highs = 0x0101010101010101, 0x8080808080808080
		w := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
		if (w|(w-' '*ones)|(w+ones))&highs != 0 {
			return false
		}
		text = text[8:]
	}
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}

// CheckCount notes that a count is negative or above MaxCount.
func (f *Faults) CheckCount(field string, n int64) {
	if n < 0 || n > MaxCount {
		f.Add(field, CountFault)
	}
}

// CheckTime notes that a client's timestamp is too old or too far ahead of now, to the
// microsecond.
func (f *Faults) CheckTime(field string, t, now time.Time) {
	switch ahead := t.UnixMicro() - now.UnixMicro(); {
	case ahead < -MaxEventAge.Microseconds():
		f.Add(field, "must not be older than 30 days")
	case ahead > MaxEventAhead.Microseconds():
		f.Add(field, "must not be more than 5 minutes ahead")
	}
}

// CheckTags notes what is wrong with a list of tags that were normalised.
func (f *Faults) CheckTags(field string, tags []string) {
	if len(tags) > MaxTags {
		f.Add(field, fmt.Sprintf("must have at most %d entries", MaxTags))
		return
	}
	for _, tag := range tags {
		if tag == "" {
			f.Add(field, "must not contain an empty tag")
			return
		}
		if message := NameFault(tag, MaxTagLength); message != "" {
			f.Add(field, "each tag "+message)
			return
		}
	}
}

// CheckUsage notes token counts that contradict each other: parts that are more
// than their total.
func (f *Faults) CheckUsage(e *Event) {
	cached := e.CacheReadTokens + e.CacheWriteTokens + e.CacheWrite1hTokens
	if cached > e.InputTokens {
		f.Add("input_tokens", `must include the cache_* tokens, or send "token_accounting":"exclusive"`)
	}
	if e.ReasoningTokens > e.OutputTokens {
		f.Add("reasoning_tokens", "must not be more than output_tokens")
	}
}
