package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/outlayhq/outlay/deploy/postgres"
)

// directory is where this process keeps its servers. Its lock, held for as long as the process lives, shows other processes
// that what is in there is in use.
type directory struct {
	path string
	lock *os.File
}

var dir = sync.OnceValues(makeDir)

// makeDir makes it, and removes those of processes that are gone: they had no chance to do it themselves.
func makeDir() (*directory, error) {
	base := filepath.Join(os.TempDir(), fmt.Sprintf("outlay-test-%d", os.Geteuid()))
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, err
	}
	one, err := lock(filepath.Join(base, "lock"), syscall.LOCK_EX) // One process at a time makes and removes directories.
	if err != nil {
		return nil, err
	}
	defer unlock(one)
	if err := sweep(base); err != nil {
		return nil, err
	}
	made, err := os.MkdirTemp(base, "run-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(made, 0o755); err != nil { // A server that is not root's has to get in.
		return nil, err
	}
	held, err := lock(filepath.Join(made, "lock"), syscall.LOCK_EX|syscall.LOCK_NB)
	return &directory{path: made, lock: held}, err
}

// sweep removes the directories that no process holds.
func sweep(base string) error {
	runs, err := filepath.Glob(filepath.Join(base, "run-*"))
	if err != nil {
		return err
	}
	for _, run := range runs {
		f, err := lock(filepath.Join(run, "lock"), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err == nil {
			unlock(f)
		}
		if err := remove(run); err != nil {
			return fmt.Errorf("remove what an earlier test run left: %w", err)
		}
	}
	return nil
}

// remove removes a directory and ends the servers in it that their process left behind.
func remove(run string) error {
	servers, err := filepath.Glob(filepath.Join(run, "postgres-*"))
	if err != nil {
		return err
	}
	for _, server := range servers {
		if err := postgres.Remove(context.Background(), server); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.RemoveAll(run)
}

// Clean removes this process's directory, after its servers were stopped and before the process ends.
func Clean() error {
	made, err := dir()
	if err != nil {
		return err
	}
	return remove(made.path)
}

func lock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		f.Close() //nolint:errcheck // Nothing was written to it.
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

func unlock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // It cannot fail for a file that is open.
	f.Close()                                       //nolint:errcheck // Nothing was written to it.
}
