package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/schematest/disk"
)

// When the disk of the embedded broker is full, readiness, the log and outlay check
// name it; when there is room again, events are recorded again without a restart, and
// none of the acknowledged ones is missing.
func TestUpWithAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	brokerDir := filepath.Join(dir, "kafka")
	if err := os.Mkdir(brokerDir, 0o700); err != nil {
		t.Fatal(err)
	}
	disk.Mount(t, brokerDir, "32m")
	u := startUpIn(t, dir)
	c := client{u.credentials(t).BaseURL, u.credentials(t).APIKey}
	acknowledged := 0
	track := func() int {
		t.Helper()
		status := c.call(t, http.MethodPost, "/v1/track", `{"agent":"a","metadata":{"x":"`+strings.Repeat("x", 2000)+`"}}`, &struct{}{})
		if status == http.StatusOK {
			acknowledged++
		}
		return status
	}
	if status := track(); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	filler := disk.Fill(t, brokerDir)
	failed := 0
	for deadline := time.Now().Add(time.Minute); failed < 20 && time.Now().Before(deadline); {
		if track() == http.StatusInternalServerError {
			failed++
		}
	}
	if failed < 20 {
		t.Errorf("%d events failed on a full disk", failed)
	}
	const reason = "the disk of the embedded broker is full"
	if status, text := readiness(t, u.ops); status != http.StatusServiceUnavailable || !strings.Contains(text, reason) || !strings.Contains(text, brokerDir) {
		t.Errorf("/readyz is %d %q", status, text)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "check", "--process", u.ops).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "NOT OK") || !strings.Contains(string(out), reason) {
		t.Errorf("outlay check: %v\n%s", err, out)
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(u.process.text(t), reason); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the log does not name the full disk")
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); track() != http.StatusOK; {
		if time.Now().After(deadline) {
			t.Fatal("no event is taken although there is room")
		}
	}
	u.process.awaitReady(t, u.ops)
	if n := strings.Count(u.process.text(t), "level=WARN"); n > 20 {
		t.Errorf("%d warnings were logged", n)
	}
	reader := signIn(t, u.credentials(t))
	var list struct {
		Data []struct {
			Events int `json:"events"`
		} `json:"data"`
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		reader.call(t, http.MethodGet, "/v1/agents", "", &list)
		if len(list.Data) == 1 && list.Data[0].Events == acknowledged {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("stored %+v, want %d events", list.Data, acknowledged)
		}
	}
}
