package schema

import "time"

// ParseTime reads a time as RFC 3339 has it, whose T and Z may be small letters.
func ParseTime(text string) (time.Time, error) {
	const letterT = len("2006-01-02")
	end := len(text) - 1
	if end > letterT && (text[letterT] == 't' || text[end] == 'z') {
		b := []byte(text)
		if b[letterT] == 't' {
			b[letterT] = 'T'
		}
		if b[end] == 'z' {
			b[end] = 'Z'
		}
		text = string(b)
	}
	return time.Parse(time.RFC3339Nano, text)
}
