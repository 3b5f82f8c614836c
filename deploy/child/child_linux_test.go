package child_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outlayhq/outlay/deploy/child"
)

// asParent makes the test binary a program that starts a child, prints its process id and waits to be killed.
const asParent = "OUTLAY_CHILD_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(asParent) == "" {
		os.Exit(m.Run())
	}
	p, err := child.Start(exec.Command("sleep", "600"), syscall.SIGTERM)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	<-p.Done()
}

// A child must not outlive a parent that was killed without a chance to stop it.
func TestChildEndsWithItsParent(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), asParent+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // It was killed: its status means nothing.
	awaitEnd(t, pid)
}

// awaitEnd waits until no process has the id; a zombie that nobody has collected yet counts as ended.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for running(pid) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("process %d still runs a minute after its parent was killed", pid)
		}
	}
}

func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// Done and Err report the end of the child, and a signal to one that has ended is harmless.
func TestDoneReportsTheEnd(t *testing.T) {
	t.Parallel()
	p, err := child.Start(exec.Command("sh", "-c", "exit 3"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if p.Err() == nil {
		t.Error("Err() = nil after exit code 3, want an error")
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("Signal after the end = %v, want nil", err)
	}
}

// A program that is not there is an error of Start, not of the wait for it.
func TestStartNamesAMissingProgram(t *testing.T) {
	t.Parallel()
	if _, err := child.Start(exec.Command("/no/such/program"), syscall.SIGKILL); err == nil {
		t.Error("Start of a missing program = nil, want an error")
	}
}
