package ingest

import "strings"

// memory holds what is read of events and has no fixed size, so that many events are
// few pieces of it.
type memory struct {
	texts strings.Builder
	bytes []byte
	tags  []string
}

// sharedTexts is how many bytes of texts share one piece. They are never written
// over: who keeps a text keeps its piece, and no more.
const sharedTexts = 1 << 10

// text keeps a text.
func (m *memory) text(text []byte) string {
	start := m.room(len(text))
	_, _ = m.texts.Write(text)
	return m.texts.String()[start:]
}

// after keeps a text after a prefix.
func (m *memory) after(prefix string, text []byte) string {
	start := m.room(len(prefix) + len(text))
	_, _ = m.texts.WriteString(prefix)
	_, _ = m.texts.Write(text)
	return m.texts.String()[start:]
}

// joined keeps two texts as one.
func (m *memory) joined(a, b string) string {
	start := m.room(len(a) + len(b))
	_, _ = m.texts.WriteString(a)
	_, _ = m.texts.WriteString(b)
	return m.texts.String()[start:]
}

// room makes room for size bytes of texts and returns where they start.
func (m *memory) room(size int) int {
	if m.texts.Cap()-m.texts.Len() < size {
		m.texts.Reset()
		m.texts.Grow(max(sharedTexts, size))
	}
	return m.texts.Len()
}

// since returns what was appended to bytes since they ended at start. It stays good
// until empty is called.
func (m *memory) since(start int) []byte { return m.bytes[start:len(m.bytes):len(m.bytes)] }

// maxKept keeps large events from holding memory for ever.
const maxKept = 256 << 10

// empty makes the memory of bytes and tags free again, and reports whether it is
// worth keeping.
func (m *memory) empty() bool {
	clear(m.tags)
	m.bytes, m.tags = m.bytes[:0], m.tags[:0]
	return cap(m.bytes) <= maxKept && m.texts.Cap() <= sharedTexts
}
