package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A server that is killed closes Done, and the next start on the same port recovers what was committed.
func TestKilledServerRecovers(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	dir := openDir(t)
	s := start(t, Config{DataDir: dir, Settings: fast})
	save(t, s.URL())
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	stop(t, s)
	again := start(t, Config{DataDir: dir, Port: s.Port(), Settings: fast})
	if again.URL() != s.URL() {
		t.Errorf("URL() = %s after a restart on the same port, want %s", again.URL(), s.URL())
	}
	if got := query(t, again.URL(), "SELECT count(*)::text FROM kept"); got != "1" {
		t.Errorf("rows after a crash = %s, want 1", got)
	}
}

// parent is another process that runs a server.
type parent struct {
	cmd *exec.Cmd
	pid int
	url string
}

// startParent starts one, with the given credentials if any.
func startParent(t *testing.T, program, dir string, as *syscall.Credential) parent {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), asParent+"="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	var problems strings.Builder
	cmd.Stderr = &problems
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
		// Its server is still writing its last: the directory around can be removed only once that has ended.
		if err := Remove(context.Background(), dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait() // What it wrote is more useful.
		t.Fatalf("parent: %v: %s", err, problems.String())
	}
	pid, url, _ := strings.Cut(strings.TrimSpace(line), " ")
	p := parent{cmd: cmd, url: url}
	if p.pid, err = strconv.Atoi(pid); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p parent) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // It was killed: its status means nothing.
}

// A server whose parent was killed ends, and a start right after takes the directory over with all its data, at whatever point
// of its shutdown the old server is.
func TestKilledParentLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	dir := openDir(t)
	p := startParent(t, os.Args[0], dir, nil)
	save(t, p.url)
	p.kill(t)
	s := start(t, Config{DataDir: dir, Settings: fast})
	if got := query(t, s.URL(), "SELECT count(*)::text FROM kept"); got != "1" {
		t.Errorf("rows after the parent was killed = %s, want 1", got)
	}
	if got := processesIn(filepath.Join(dir, "data"), s.PID()); !slices.Contains(got, s.PID()) || slices.Contains(got, p.pid) {
		t.Errorf("processes on the data = %v, want %d there and %d gone", got, s.PID(), p.pid)
	}
}

// The same when the server is killed together with its parent, in the middle of a busy connection.
func TestEverythingKilledKeepsData(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	dir := openDir(t)
	p := startParent(t, os.Args[0], dir, nil)
	save(t, p.url)
	busy, err := pgx.Connect(t.Context(), p.url)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close(context.Background())
	if _, err := busy.Exec(t.Context(), "BEGIN; INSERT INTO kept VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.kill(t)
	s := start(t, Config{DataDir: dir, Settings: fast})
	if got := query(t, s.URL(), "SELECT count(*)::text FROM kept"); got != "1" {
		t.Errorf("rows after everything was killed = %s, want 1", got)
	}
}

// An orphan that nobody asked to stop, as on systems where children outlive their parent, is stopped by the next start.
func TestOrphanIsStopped(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	dir := openDir(t)
	s := start(t, Config{DataDir: dir, Settings: fast})
	save(t, s.URL())
	c := *s.cluster
	stop(t, s)

	cmd, err := c.command("postgres", append([]string{"-D", c.path("data")}, settings(c.edition, s.Port(), fast)...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for pid, ready := 0, false; pid != cmd.Process.Pid || !ready; {
		pid, ready = postmaster(c.path("data"))
	}
	s = start(t, Config{DataDir: dir, Settings: fast})
	if err := <-ended; err != nil {
		t.Errorf("the orphan ended with %v, want an orderly shutdown", err)
	}
	if got := query(t, s.URL(), "SELECT count(*)::text FROM kept"); got != "1" {
		t.Errorf("rows after the orphan = %s, want 1", got)
	}
}

// A lock file that names a living process of another program, as after a restart of the machine, does not stop the server.
func TestReusedProcessIDIsNoServer(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	dir := openDir(t)
	s := start(t, Config{DataDir: dir, Settings: fast})
	c := *s.cluster
	stop(t, s)
	stranger := exec.Command("sleep", "600")
	attr, err := c.owner.attr(dir)
	if err != nil {
		t.Fatal(err)
	}
	stranger.SysProcAttr = attr
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stranger.Process.Kill() // It sleeps.
		_ = stranger.Wait()         // As above.
	}()
	pidFile := fmt.Sprintf("%d\n%s\n", stranger.Process.Pid, c.path("data"))
	if err := os.WriteFile(c.path("data/postmaster.pid"), []byte(pidFile), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, Config{DataDir: dir, Settings: fast})
}

// A start that was killed while it made the data leaves nothing that a later start takes for data.
func TestHalfMadeDataIsMadeAnew(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	dir := openDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data.new", "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, Config{DataDir: dir, Settings: fast})
}
