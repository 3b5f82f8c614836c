// Package port keeps TCP ports for programs that a test starts and that have to know where to listen. A port that is only looked for can be
// gone by the time the program listens on it, or between its end and its next start: to another test that lets the system pick one.
package port

import (
	"net"
	"os"
	"strconv"
)

// Reservation is a port of 127.0.0.1. The program that is given it can listen there, as often as it likes; the system
// gives the port to nobody who asks for any until Close, or until nothing refers to the Reservation any more.
type Reservation struct {
	port   int
	socket *os.File // nil where ports cannot be kept.
}

// Port is the port's number.
func (r *Reservation) Port() int { return r.port }

// Address is the address with the port.
func (r *Reservation) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }
