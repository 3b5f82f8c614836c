package decode

import "strings"

// arena holds the parts of events that have no fixed size, so that many events need few allocations.
type arena struct {
	texts strings.Builder
	bytes []byte
	tags  []string
}

const (
	// textBlock is how many bytes of texts share one allocation. A block is never written over: a text that is still
	// referred to keeps its block alive, and nothing more.
	textBlock = 1 << 10
	// maxKept is the largest arena, in bytes, that is used again, so that a large event does not hold memory for ever.
	maxKept = 256 << 10
)

// text returns a copy of prefix and text as one string.
func (a *arena) text(prefix string, text []byte) string {
	size := len(prefix) + len(text)
	if a.texts.Cap()-a.texts.Len() < size {
		a.texts.Reset()
		a.texts.Grow(max(textBlock, size))
	}
	start := a.texts.Len()
	_, _ = a.texts.WriteString(prefix)
	_, _ = a.texts.Write(text)
	return a.texts.String()[start:]
}

// since returns the bytes appended after start. They are valid until the arena is cleared.
func (a *arena) since(start int) []byte { return a.bytes[start:len(a.bytes):len(a.bytes)] }

// clear frees bytes and tags for the next events, and reports whether the arena is small enough to be kept.
func (a *arena) clear() bool {
	clear(a.tags)
	a.bytes, a.tags = a.bytes[:0], a.tags[:0]
	return cap(a.bytes) <= maxKept && a.texts.Cap() <= textBlock
}
