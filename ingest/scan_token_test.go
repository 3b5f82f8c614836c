package ingest

import (
	"encoding/binary"
	"math/bits"
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
