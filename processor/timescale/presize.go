package timescale

import "slices"

// messageOverhead is more than the message that binds parameters takes beside them, without what each of them takes.
const messageOverhead = 1024

// reserve is no message: sent before one, it makes room for it in the connection's buffer at once. The buffer is given up after
// each batch, and grown parameter by parameter it would be copied a dozen times, which is a fifteenth of the time of a batch.
type reserve int

// room is what the parameters of a batch take in the connection's buffer.
func room(params [][]byte) reserve {
	bytes := messageOverhead
	for _, p := range params {
		bytes += len(p) + 8 // Its length, and the code of its format.
	}
	return reserve(bytes)
}

// Encode adds nothing to what is to be sent.
func (r reserve) Encode(dst []byte) ([]byte, error) { return slices.Grow(dst, int(r)), nil }

// Decode is never called: nobody receives it.
func (reserve) Decode([]byte) error { return nil }

// Frontend marks what a client sends.
func (reserve) Frontend() {}
