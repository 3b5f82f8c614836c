package port

import (
	"fmt"
	"os"
	"syscall"
)

// Reserve reserves a free port. A socket that is bound and does not listen keeps it: whoever asks for this very port, and says
// that an address may be used again as servers do, gets it all the same.
func Reserve() (*Reservation, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	r := &Reservation{socket: os.NewFile(uintptr(fd), "reserved port")}
	if r.port, err = bind(fd); err != nil {
		r.Close()
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return r, nil
}

func bind(fd int) (port int, err error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	return bound.(*syscall.SockaddrInet4).Port, nil
}

// Close lets others have the port.
func (r *Reservation) Close() { _ = r.socket.Close() }
