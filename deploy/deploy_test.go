// Package deploy holds what runs Outlay as separate processes: the image, the gateway, Prometheus and Grafana, put together by docker-compose.yml.
// It has tests only. They run the real gateway, Prometheus' own checker and every panel's query, and read the rest as Docker and Grafana would;
// starting the containers is left to whoever has a container engine.
package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
)

// root is the repository's top level, seen from this folder.
const root = ".."

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
