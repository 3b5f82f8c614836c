package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The deployment files and the README name only settings that the program has.
func TestSettingsThatAreNamedExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	var visit func(*kong.Node)
	visit = func(n *kong.Node) {
		for _, flag := range n.Flags {
			for _, env := range flag.Envs {
				known[env] = true
			}
		}
		for _, child := range n.Children {
			visit(child)
		}
	}
	visit(newParser(&cli{}).Model.Node)
	if !known["OUTLAY_DATABASE_URL"] || !known["OUTLAY_LOG_LEVEL"] {
		t.Fatalf("settings not found: %v", known)
	}
	for _, path := range []string{"docker-compose.yml", "deploy/Dockerfile", "deploy/README.md", "README.md"} {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bOUTLAY_[A-Z_]+[A-Z]`).FindAllString(string(text), -1) {
			// Those of the tests and of the gateway are not the program's.
			if strings.HasPrefix(name, "OUTLAY_E2E") || name == "OUTLAY_SEEDS" || name == "OUTLAY_TLS_CERTIFICATE" {
				continue
			}
			if !known[name] && !known[strings.TrimSuffix(name, "_FILE")] {
				t.Errorf("%s names %s, which is no setting", path, name)
			}
		}
	}
}
