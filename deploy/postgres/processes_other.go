//go:build unix && !linux

package postgres

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// processesIn lists the server's first process, which is all that these systems let us find: the one named in the lock file, if
// it is a server at all.
func processesIn(_ string, main int) []int {
	if main == 0 || syscall.Kill(main, 0) != nil {
		return nil
	}
	out, err := exec.Command("ps", "-o", "comm=", "-p", strconv.Itoa(main)).Output()
	if err != nil || filepath.Base(strings.TrimSpace(string(out))) != "postgres" {
		return nil
	}
	return []int{main}
}
