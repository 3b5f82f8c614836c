package timescale

import "slices"

// messageOverhead is more than the message that binds parameters takes beside them, without what each of them takes.
const messageOverhead = 1024

// bufferSize enlarges the connection's send buffer by so many bytes at once. pgx writes every message through Encode and drops the
// buffer after each batch; grown parameter by parameter, it would be copied a dozen times, which takes a fifteenth of the time of a
// batch. As pgx has no call for it, bufferSize is sent as a message of no bytes.
type bufferSize int

// bufferFor returns the size that the parameters of a batch take on the wire.
func bufferFor(params [][]byte) bufferSize {
	size := messageOverhead
	for _, p := range params {
		size += len(p) + 8 // Its length, and the code of its format.
	}
	return bufferSize(size)
}

// Encode makes the buffer large enough and adds nothing to it.
func (s bufferSize) Encode(dst []byte) ([]byte, error) { return slices.Grow(dst, int(s)), nil }

// Decode is never called: no server sends it.
func (bufferSize) Decode([]byte) error { return nil }

// Frontend marks what a client sends.
func (bufferSize) Frontend() {}
