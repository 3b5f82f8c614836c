package ingest

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"testing"
)

// notPlain agrees with a look at one byte after the other, for every byte in every place
// next to every other.
func TestNotPlain(t *testing.T) {
	t.Parallel()
	isPlain := func(c byte) bool { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\' }
	for at := range 7 {
		for a := range 256 {
			for b := range 256 {
				text := []byte("abcdefgh")
				text[at], text[at+1] = byte(a), byte(b)
				want := 0
				for want < len(text) && isPlain(text[want]) {
					want++
				}
				if got := bits.TrailingZeros64(notPlain(binary.LittleEndian.Uint64(text))) / 8; got != want {
					t.Fatalf("notPlain(%q) finds byte %d, want %d", text, got, want)
				}
			}
		}
	}
}

// scan takes texts that are long and good, and leaves those that are too long to the
// decoder without having kept them.
func TestScanAndLongTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field, value string
		taken        bool
	}{
		{"agent", strings.Repeat("a", 200), true},
		{"agent", strings.Repeat("a", 201), false},
		{"session_id", strings.Repeat("日", 200), true},
		{"session_id", strings.Repeat("日", 201), false},
		{"step", strings.Repeat("a", 200_000), false},
		{"idempotency_key", strings.Repeat("k", 255), true},
	} {
		var r request
		rest, ok := scan(fmt.Appendf(nil, `{%q:%q}`, c.field, c.value), &r)
		if taken := ok && len(rest) == 0; taken != c.taken {
			t.Errorf("%s of %d bytes: scan takes it: %v, want %v", c.field, len(c.value), taken, c.taken)
		}
		if !c.taken && r.memory.texts.Len() > 0 {
			t.Errorf("%s of %d bytes: %d bytes of it were kept", c.field, len(c.value), r.memory.texts.Len())
		}
	}
}
