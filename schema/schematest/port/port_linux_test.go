package port

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// A reserved port is listened on by who is told of it, again and again, and is never picked for somebody else.
func TestReservedPortIsKept(t *testing.T) {
	t.Parallel()
	r, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 3 {
		l, err := net.Listen("tcp", r.Address())
		if err != nil {
			t.Fatal(err)
		}
		if other, err := net.Listen("tcp", r.Address()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("two listen on it: %v, %v", other, err)
		}
		c, err := net.Dial("tcp", r.Address())
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		l.Close()
	}
	for range 50_000 { // There are fewer ports to pick from.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if l.Addr().String() == r.Address() {
			t.Fatal("the reserved port was picked")
		}
		l.Close()
	}
}
