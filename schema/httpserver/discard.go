package httpserver

import (
	"io"
	"net/http"
)

// maxDiscarded is how much of a body DiscardBody reads at most.
const maxDiscarded = 64 << 20

// DiscardBody reads and throws away what is left of the body of a request that is
// refused, before the response is written. Many clients, Python's among them, read a
// response only after they have sent their whole body: closing the connection before
// that resets it, and they never see why. net/http does the same for 256 KiB.
//
// It reads at most 64 MiB, and no longer than Config.BodyTimeout allows; the
// connection is closed after the response if the body goes on. It reads nothing of a
// body that is announced as longer, nor of one whose client waits to be asked to
// continue.
func DiscardBody(r *http.Request) {
	if r.ContentLength > maxDiscarded || r.Header.Get("Expect") != "" {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded)
}
