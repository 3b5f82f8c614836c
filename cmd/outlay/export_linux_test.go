package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/schematest"
)

// mostResident is the memory in KiB that the query tier may take for an export of
// any length.
const mostResident = 100 << 10

// An export streams: however many events it has, the process stays small.
func TestExportStreamsInLittleMemory(t *testing.T) {
	t.Parallel()
	events := exportedEvents(t)
	db := schematest.Database(t)
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	made, err := exec.CommandContext(t.Context(), path, "account", "create", "--database-url", db.URL, "--name", "test", "--email", "owner@example.com").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, made)
	}
	const insert = `
		INSERT INTO events (ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit, status,
			input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, latency_ms,
			cost_nano_usd, cost_source, metadata, kafka_partition, kafka_offset)
		SELECT now() - i * interval '1 second', (SELECT id FROM accounts), gen_random_uuid(), now(), 'agent-' || i % 200, 'openai', 'gpt-4o',
			'ses_' || i / 100, false, 'ok', i % 5000, i % 800, 0, 0, 0, 0, i % 4000, i, 'calculated', '{"env":"prod","team":"search"}', 0, i
		FROM generate_series($1::bigint, $2::bigint) AS i`
	const piece = 200_000
	for first := 1; first <= events; first += piece {
		if _, err := db.Pool.Exec(t.Context(), insert, first, min(first+piece-1, events)); err != nil {
			t.Fatal(err)
		}
	}
	in := &installation{databaseURL: db.URL}
	server := in.startQuery(t)
	reader := signIn(t, credentials{BaseURL: in.query.String(), Email: "owner@example.com", Password: field(t, string(made), "password")})

	for _, format := range []string{"ndjson", "csv", "focus"} {
		began := time.Now()
		lines, size := reader.countLines(t, "/v1/events/export?format="+format)
		if format != "ndjson" {
			lines-- // the header
		}
		peak := peakResident(t, server.PID())
		t.Logf("%s: %d events, %d MB in %v; the process took at most %d KiB", format, lines, size/1e6, time.Since(began).Round(time.Millisecond), peak)
		if lines != events {
			t.Errorf("the %s export has %d events, want %d", format, lines, events)
		}
		if peak > mostResident {
			t.Errorf("the process took %d KiB, want at most %d", peak, mostResident)
		}
	}
}

// exportedEvents is OUTLAY_E2E_EXPORT, or a number that fits into a CI run.
func exportedEvents(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("OUTLAY_E2E_EXPORT"))
	if err != nil {
		return 30_000
	}
	return n
}

// countLines reads an answer to its end.
func (c client) countLines(t *testing.T, path string) (lines, size int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.bearer)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: status %d", path, resp.StatusCode)
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := resp.Body.Read(buf)
		size += n
		lines += bytes.Count(buf[:n], []byte("\n"))
		if err == io.EOF {
			return lines, size
		}
		if err != nil {
			t.Fatalf("after %d lines: %v", lines, err)
		}
	}
}

// peakResident is the most memory in KiB that a process has had so far.
func peakResident(t *testing.T, pid int) (kib int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib
		}
	}
	t.Fatal("no VmHWM in the status of the process")
	return 0
}
