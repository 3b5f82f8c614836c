package child

import "syscall"

// tie makes the child a process group of its own and has the kernel send it the farewell signal when this process ends.
func tie(attr *syscall.SysProcAttr, farewell syscall.Signal) {
	attr.Setpgid = true
	attr.Pdeathsig = farewell
}
