//go:build unix && !linux

package child

import "syscall"

// tie makes the child a process group of its own. These systems offer nothing that ends a child with its parent.
func tie(attr *syscall.SysProcAttr, _ syscall.Signal) {
	attr.Setpgid = true
}
