package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// What the start needed is given back, and the program goes on.
func TestReleaseProgramShrinksResidentFile(t *testing.T) {
	before := residentFile(t)
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	if after := residentFile(t); after > before*3/4 {
		t.Errorf("the program's file has %d KiB resident, %d before", after, before)
	}
}

func residentFile(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "RssFile: %d kB", &kib); err == nil {
			return kib
		}
	}
	t.Fatal("no RssFile in /proc/self/status")
	return 0
}
