// Package disk gives a test a small disk of its own, and fills it.
package disk

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Fill leaves the disk of a directory without room, and returns the file that takes it.
func Fill(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // What was written is thrown away.
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return path
}
