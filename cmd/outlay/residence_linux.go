package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlayhq/outlay/schema/backoff"
)

// startLasts is how long a process surely needs what only its start needs.
const startLasts = 5 * time.Second

// releaseStart gives back the memory of the program's file that only the start
// needed, once that is over. The program holds every tier and touches most of
// itself while it initialises, about 25 MiB; one tier goes on with less than
// half of it. What is needed again comes back from the page cache.
func releaseStart(ctx context.Context) error {
	if backoff.Sleep(ctx, startLasts) == nil {
		return releaseProgram()
	}
	return nil
}

// releaseProgram lets go of the mappings of the program's file that cannot be
// written to. They are exact copies of the file, which stays open by them.
func releaseProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the program's file: %w", err)
	}
	// A line has: range, mode, offset, device, inode, and the file.
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("list the memory: %w", err)
	}
	for line := range strings.Lines(string(maps)) {
		line = strings.TrimSuffix(line, "\n")
		var start, end uintptr
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &mode); err != nil {
			continue
		}
		if mode[1] == '-' && strings.HasSuffix(line, " "+program) {
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED); errno != 0 {
				return fmt.Errorf("release the program's memory: %w", errno)
			}
		}
	}
	return nil
}
