package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// failStart runs the program, which has to end soon with 1 and one line that has all
// parts.
func failStart(t *testing.T, args []string, parts ...string) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	out, _ := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if cmd.ProcessState.ExitCode() != 1 || strings.Contains(text, "\n") {
		t.Errorf("%s: exit %d, want 1 and one line:\n%s", args[0], cmd.ProcessState.ExitCode(), text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: %q is not in %q", args[0], part, text)
		}
	}
}

// A start that cannot succeed ends with one line that names the setting to change.
func TestStartsThatCannotSucceed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	dir := t.TempDir()
	release, err := lockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	database, err := url.Parse(schematest.Empty(t, migrations.Plain).URL)
	if err != nil {
		t.Fatal(err)
	}
	wrong := *database
	wrong.User = url.UserPassword(database.User.Username(), "not-the-password")
	missing := *database
	missing.Path = "/no_such_database"
	failStart(t, []string{"up", "--data-dir", t.TempDir(), "--listen", taken, "--ops-listen", "0"}, "127.0.0.1:"+taken, "another program", "--listen")
	failStart(t, []string{"up", "--data-dir", dir, "--listen", "0", "--ops-listen", "0"}, dir, fmt.Sprintf("process %d", os.Getpid()), "--data-dir")
	for _, tier := range []string{"ingest", "processor"} {
		failStart(t, []string{tier, "--kafka-brokers", "127.0.0.1:1", "--ops-listen", "0", "--database-url", wrong.String()}, "password", "--database-url", database.Host)
	}
	failStart(t, []string{"migrate", "--database-url", missing.String()}, "no_such_database", "--database-url")
}
