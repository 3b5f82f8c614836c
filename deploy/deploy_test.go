// Package deploy holds what runs Outlay as separate processes: the image, the gateway, Prometheus and Grafana, put together by docker-compose.yml.
// It has tests only. They run the real gateway, Prometheus' own checker and every panel's query, and read the rest as Docker and Grafana would;
// starting the containers is left to whoever has a container engine.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
)

// root is the repository's top level, seen from this folder.
const root = ".."

// tool finds a program that a test needs. A machine without it skips the test; where everything has to be there, as in CI, that is a failure.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	// haproxy is installed where an ordinary user's PATH does not look.
	if path = filepath.Join("/usr/sbin", name); isFile(path) {
		return path
	}
	if os.Getenv("CI") == "true" || os.Getenv("OUTLAY_TEST_REQUIRE") == "1" {
		t.Fatalf("%s is missing: %v", name, err)
	}
	t.Skipf("%s is not installed", name)
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// readYAML reads a file below root into v.
func readYAML(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
