package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processesIn lists the processes that run on the data: all of a server's processes have it as their working directory. A
// program that was replaced by an upgrade since has " (deleted)" after its name.
func processesIn(data string, _ int) []int {
	var pids []int
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // The pattern is constant.
	for _, link := range links {
		if cwd, err := os.Readlink(link); err != nil || cwd != data {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link))) // The pattern lets digits through, and perhaps more.
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && strings.HasPrefix(filepath.Base(exe), "postgres") {
			pids = append(pids, pid)
		}
	}
	return pids
}
