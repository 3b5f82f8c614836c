package postgres

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// passThrough lets the child enter directories that its user may not, like root's home, and nothing more where that can be had
// alone: containers usually have only the capability that also reads and writes everything.
func passThrough(attr *syscall.SysProcAttr) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for _, c := range []uintptr{unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE} {
		if data[0].Permitted&(1<<c) != 0 {
			attr.AmbientCaps = []uintptr{c}
			return nil
		}
	}
	return errors.New("and we lack the capability to let it")
}
