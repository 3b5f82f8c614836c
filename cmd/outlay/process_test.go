package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outlayhq/outlay/deploy/child"
	"github.com/outlayhq/outlay/schema/schematest/port"
)

// program builds the program once for all tests of this package, as it is shipped.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "outlay-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "outlay")
	build := exec.Command("go", "build", "-trimpath", "-tags", "nomsgpack,timetzdata", "-ldflags", "-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// running is a process of the program.
type running struct {
	*child.Process
	name string
	log  string
	// ops is its operations address; empty for a command without one.
	ops string
}

// launch starts the program. Its log is shown when the test fails.
func launch(t testing.TB, name string, args ...string) *running {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.CreateTemp(t.TempDir(), name+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // The child has its own copy.
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Process: process, name: name, log: log.Name()}
	if i := slices.Index(args, "--ops-listen"); i >= 0 {
		r.ops = args[i+1]
	}
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			text, _ := os.ReadFile(r.log)
			t.Logf("log of %s:\n%s", r.name, text[max(0, len(text)-8000):])
		}
	})
	return r
}

// text is what the process has printed.
func (r *running) text(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// kill ends the process at once, as a power cut does.
func (r *running) kill() {
	_ = r.Signal(syscall.SIGCONT)
	_ = r.Signal(syscall.SIGKILL)
	<-r.Done()
}

// stop ends the process as an operator does, and fails the test unless it goes
// well and soon.
func (r *running) stop(t testing.TB) {
	t.Helper()
	if err := r.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Done():
		if err := r.Err(); err != nil {
			t.Errorf("%s ended with %v", r.name, err)
		}
	case <-time.After(3 * time.Minute):
		t.Errorf("%s did not stop", r.name)
	}
}

// awaitReady waits until the operations listener reports that all is well.
func (r *running) awaitReady(t testing.TB, ops string) {
	t.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	for !isReady(t.Context(), ops) {
		select {
		case <-r.Done():
			t.Fatalf("%s ended before it was ready", r.name)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s was not ready in time", r.name)
		}
	}
}

func isReady(ctx context.Context, ops string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// freeAddress returns an address on the loopback that nobody else gets during the test.
func freeAddress(t testing.TB) string {
	t.Helper()
	return freePort(t).Address()
}

func freePort(t testing.TB) *port.Reservation {
	t.Helper()
	r, err := port.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// scale is how many events the load tests send: OUTLAY_E2E_EVENTS, or a number
// that fits into a CI run.
func scale(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("OUTLAY_E2E_EVENTS"))
	if err != nil {
		return 20_000
	}
	return n
}
