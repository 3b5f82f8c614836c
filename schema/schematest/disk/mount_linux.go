package disk

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/outlayhq/outlay/schema/schematest/need"
)

// Mount mounts a disk of a size, such as 16m, on a directory until the end of the test. Only root may: elsewhere it ends the test.
func Mount(t testing.TB, dir, size string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		need.Missing(t, fmt.Errorf("a disk of %s, which only root may mount: %w", size, err))
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}
