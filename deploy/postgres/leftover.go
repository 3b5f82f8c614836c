package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// lock takes the directory for this process. The kernel gives it free when the process ends, however that happens.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close() //nolint:errcheck // Nothing was written to it.
		return nil, fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return f, nil
}

// unlock gives the directory free. To close the file would not do: a child that was forked a moment ago, and is not yet the
// program it will be, has the file open as well.
func unlock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // It cannot fail for a file that is open.
	f.Close()                                       //nolint:errcheck // Nothing was written to it.
}

// ErrInUse is in the chain of an error about a directory that another process uses.
var ErrInUse = errors.New("another process uses the directory")

// How long a server that was left behind may take to end, first with a checkpoint, then without.
const (
	patienceFast      = 30 * time.Second
	patienceImmediate = 5 * time.Second
)

// stopLeftover ends what an earlier process left running on the data: a whole server when only we were killed (it may be shutting
// down already), backends when the server's first process was. The caller holds the lock, so nobody else uses them.
func stopLeftover(ctx context.Context, data string, log *slog.Logger) error {
	// main is the server's first process, which stops the others when it stops.
	main, _ := postmaster(data)
	left := processesIn(data, main)
	if len(left) == 0 || !slices.Contains(left, main) {
		if err := forgetStranger(data, main); err != nil {
			return err
		}
	}
	if len(left) == 0 {
		return nil
	}
	log.WarnContext(ctx, "postgres was left running: stopping it", "pids", left)
	if slices.Contains(left, main) && stopAll(ctx, data, []int{main}, syscall.SIGINT, patienceFast) {
		return nil
	}
	if stopAll(ctx, data, left, syscall.SIGQUIT, patienceImmediate) {
		return nil
	}
	if stopAll(ctx, data, left, syscall.SIGKILL, patienceImmediate) {
		return nil
	}
	return fmt.Errorf("processes %v still use the data", left)
}

// forgetStranger removes a lock file whose process id belongs to another program by now, as after a restart of the machine:
// PostgreSQL would take that program for its own and refuse to start. One whose process is gone it handles itself.
func forgetStranger(data string, pid int) error {
	if pid == 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return nil
	}
	err := os.Remove(filepath.Join(data, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stopAll signals the processes and reports whether none is left on the data before patience ends.
func stopAll(ctx context.Context, data string, pids []int, sig syscall.Signal, patience time.Duration) bool {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig) // One that has ended needs no signal.
	}
	// Processes that are not our children cannot be waited for, so they are looked for.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for len(processesIn(data, pids[0])) > 0 {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Remove ends what runs on a directory of ours and removes it with all its data, unless a process uses it.
func Remove(ctx context.Context, dataDir string) error {
	f, err := lock(filepath.Join(dataDir, "lock"))
	if err != nil {
		return fmt.Errorf("remove %s: %w", dataDir, err)
	}
	defer unlock(f)
	// Processes are found by the real path of their directory.
	path, err := filepath.EvalSymlinks(dataDir)
	if err != nil {
		return fmt.Errorf("remove %s: %w", dataDir, err)
	}
	if err := stopLeftover(ctx, filepath.Join(path, "data"), slog.New(slog.DiscardHandler)); err != nil {
		return fmt.Errorf("remove %s: %w", dataDir, err)
	}
	return os.RemoveAll(dataDir)
}
