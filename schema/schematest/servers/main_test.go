package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/schema/schematest/kafka"
	"github.com/outlayhq/outlay/schema/schematest/need"
)

// The command finds its servers in the environment, its exit code is ours, and the last line of the report says which edition
// was missing.
func TestRunReportsWhatTheCommandRanOn(t *testing.T) {
	t.Parallel()
	if _, err := kafka.Find(); err != nil {
		need.Missing(t, err)
	}
	const check = `test -n "$OUTLAY_TEST_KAFKA" && test -n "$OUTLAY_TEST_POSTGRES_PLAIN" && exit 7`
	var out strings.Builder
	code, err := run("plain", []string{"sh", "-c", check}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if code != 7 {
		t.Errorf("exit code = %d, want the command's 7", code)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "NOT on TimescaleDB Community") {
		t.Errorf("last line = %q, want it to name TimescaleDB Community", last)
	}
	for _, want := range []string{"Apache Kafka v", "without TimescaleDB"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("report = %s, want %q in it", out.String(), want)
		}
	}
}

// An edition that does not exist is an error before anything is started.
func TestRunRefusesAnUnknownEdition(t *testing.T) {
	t.Parallel()
	_, err := run("nonsense", []string{"true"}, new(strings.Builder))
	if err == nil || !strings.Contains(fmt.Sprint(err), "nonsense") {
		t.Errorf("run with an edition that does not exist = %v, want an error that names it", err)
	}
}
