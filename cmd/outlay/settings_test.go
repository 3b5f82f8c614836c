package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/outlayhq/outlay/schema/account"
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
	// Those of the tests and of the gateway are not the program's.
	others := regexp.MustCompile(`^OUTLAY_(E2E|BENCH|LARGE)|^OUTLAY_(SEEDS|OTELCOL|TLS_CERTIFICATE)$`)
	for _, path := range []string{
		"docker-compose.yml", "deploy/Dockerfile", "README.md",
		"ingest/README.md", "processor/README.md", "query/README.md", "schema/README.md", "deploy/README.md", "deploy/BENCHMARKS.md",
	} {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bOUTLAY_[A-Z_]+[A-Z]`).FindAllString(string(text), -1) {
			if !others.MatchString(name) && !known[name] && !known[strings.TrimSuffix(name, "_FILE")] {
				t.Errorf("%s names %s, which is no setting", path, name)
			}
		}
	}
}

// Identity providers are read from a flag and from a file alike, and a misspelled rule is
// not passed over.
func TestIdentityProvidersAreRead(t *testing.T) {
	const text = `[{"issuer": "https://login.example.com/", "audience": "outlay", "jwks_url": "https://login.example.com/keys",
		"role_claim": "groups", "roles": {"finance": "viewer"}}]` + "\n"
	file := filepath.Join(t.TempDir(), "providers.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OUTLAY_IDENTITY_PROVIDERS_FILE", file)
	for _, args := range [][]string{{"up"}, {"query", "--database-url=x", "--jwt-key-file=x"}, {"up", "--identity-providers", text}} {
		var c cli
		if _, err := newParser(&c).Parse(args); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		got := slices.Concat(c.Up.IdentityProviders, c.Query.IdentityProviders)
		if len(got) != 1 || got[0].Issuer != "https://login.example.com/" || got[0].Roles["finance"] != account.Viewer {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for _, bad := range []string{`{}`, `[{"isuer":"x"}]`, `[] []`, `x`} {
		if _, err := newParser(&cli{}).Parse([]string{"up", "--identity-providers", bad}); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}
