package local

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/deploy/postgres"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest/need"
)

// asTest makes the test binary a process that starts a server as a test would, prints its own directory and waits to be killed.
const asTest = "OUTLAY_LOCAL_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asTest) == "" {
		os.Exit(m.Run())
	}
	if _, err := Postgres(context.Background(), migrations.Plain); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	d, err := dir()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(d.path)
	_, _ = io.Copy(io.Discard, os.Stdin) // Only its end matters.
}

// What a killed process left behind is removed by the next that starts servers, and what a living one uses is not.
func TestLeftBehindServersAreRemoved(t *testing.T) {
	t.Parallel()
	if len(postgres.Editions(t.Context())) == 0 {
		need.Missing(t, fmt.Errorf("PostgreSQL: %w", postgres.ErrNotInstalled))
	}
	killed, path := startTest(t)
	_, living := startTest(t)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // It was killed: its status says nothing.
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the directory of the killed process: %v", err)
	}

	made, err := makeDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the directory of the killed process after makeDir: %v, want it gone", err)
	}
	if _, err := os.Stat(filepath.Join(living, "postgres-plain", "data", "postmaster.pid")); err != nil {
		t.Errorf("the server of the living process after makeDir: %v", err)
	}
	unlock(made.lock)
	if err := remove(made.path); err != nil {
		t.Error(err)
	}
}

// startTest starts the process and returns it with its directory.
func startTest(t *testing.T) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asTest+"=1")
	if _, err := cmd.StdinPipe(); err != nil { // Stays open for as long as we live.
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // It may have been killed by the test.
		_ = cmd.Wait()         // As above.
	})
	path, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !filepath.IsAbs(path) {
		t.Fatalf("the process says %q (%v), want its directory", path, err)
	}
	return cmd, strings.TrimSpace(path)
}
