//go:build !linux

package port

import (
	"fmt"
	"net"
)

// Reserve finds a free port. Here nothing keeps it.
func Reserve() (*Reservation, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	defer l.Close() //nolint:errcheck // Nobody has connected.
	return &Reservation{port: l.Addr().(*net.TCPAddr).Port}, nil
}

// Close has nothing to do here.
func (*Reservation) Close() {}
