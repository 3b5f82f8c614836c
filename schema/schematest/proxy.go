package schematest

import (
	"testing"

	"github.com/outlayhq/outlay/schema/schematest/proxy"
)

// Proxy starts a TCP proxy to the target, a host and port, for one test.
func Proxy(t testing.TB, target string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Start(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}
