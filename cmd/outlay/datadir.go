package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// lockDataDir takes the directory for this process, which the kernel gives free when it
// ends, however that happens. release does it before.
func lockDataDir(dir string) (release func(), err error) {
	// The file stays when the process ends: removing it would let two processes lock two files of the same name.
	f, err := os.OpenFile(filepath.Join(dir, "outlay.pid"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	// Closing the file would not do: a child that was forked a moment ago has it open too.
	release = func() {
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // It cannot fail for a file that is open.
		_ = f.Close()
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := os.ReadFile(f.Name())
		_ = f.Close()
		return nil, fmt.Errorf("another outlay up (process %s) uses %s: stop it, or choose another directory with --data-dir", strings.TrimSpace(string(holder)), dir)
	}
	if err == nil {
		err = errors.Join(f.Truncate(0), writePID(f))
	}
	if err != nil {
		release()
		return nil, fmt.Errorf("--data-dir: lock %s: %w", dir, err)
	}
	return release, nil
}

// writePID writes the process id for the error message of another process that wants the directory.
func writePID(f *os.File) error {
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}
