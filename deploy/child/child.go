// Package child runs a program that lives no longer than this process: the servers behind `outlay up` and behind the tests.
// On Linux the kernel ends the child when this process ends, however that happens; elsewhere the next start has to cope with
// one that was left behind. A child has a process group of its own, so that Ctrl-C in a terminal reaches only this process,
// which stops its children in the order it chooses.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a child that was started.
type Process struct {
	// cmd is started by run and not touched by others before started has a value.
	cmd  *exec.Cmd
	done chan struct{}
	err  error // Set before done is closed.
}

// Start starts cmd. farewell is the signal the child gets when this process ends without having stopped it.
func Start(cmd *exec.Cmd, farewell syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	tie(cmd.SysProcAttr, farewell)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	// The goroutine is waited for through done, by whoever needs the end of the child.
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run stays on one thread for as long as the child lives, because the kernel sends the farewell signal when the thread that
// started the child ends, not when the process does.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The child inherits the thread's death signal at this point.
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the child has ended and been waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the child ended: nil for exit code 0. It may be called only after Done is closed.
func (p *Process) Err() error { return p.err }

// Signal sends sig to the child. A child that has ended is not an error.
func (p *Process) Signal(sig syscall.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.cmd.Path, err)
	}
	return nil
}
