// Package kafka runs a real Apache Kafka for the tests: one node, KRaft, started from its published artifacts on a Java that is
// already there, in a directory of its own. It can be stopped, killed, paused and started again on the same addresses, so that
// fault tests can treat it as badly as they like.
package kafka

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed pom.xml
var pom []byte

// ErrNotInstalled is in the chain of an error about a missing Java, Maven or Kafka.
var ErrNotInstalled = errors.New("not installed")

// Libs is a directory with Kafka and all it needs.
type Libs string

// Find returns the libraries that an earlier Resolve left, or an error that wraps ErrNotInstalled.
func Find() (Libs, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", fmt.Errorf("java: %w", ErrNotInstalled)
	}
	dir := libsDir()
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("the libraries of Kafka: %w", ErrNotInstalled)
	}
	return Libs(dir), nil
}

// Resolve returns the libraries and has Maven get them when they are not there yet, which takes some seconds.
func Resolve(ctx context.Context) (Libs, error) {
	found, err := Find()
	if err == nil || !errors.Is(err, ErrNotInstalled) {
		return found, err
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return "", fmt.Errorf("mvn: %w", ErrNotInstalled)
	}
	if err := resolve(ctx, libsDir()); err != nil {
		return "", fmt.Errorf("resolve kafka: %w", err)
	}
	return Find()
}

// resolve has Maven copy the libraries aside and puts them in place when they are complete.
func resolve(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "resolve-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mvn", "--batch-mode", "--quiet", "--no-transfer-progress", "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(work, "libs"))
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn: %w: %s", err, out)
	}
	return os.Rename(filepath.Join(work, "libs"), dir)
}

// libsDir is where the libraries are kept, for all clones on the machine and until the pom changes.
func libsDir() string {
	cache, err := os.UserCacheDir()
	if err != nil { // There is no home directory.
		cache = os.TempDir()
	}
	return filepath.Join(cache, "outlay", fmt.Sprintf("kafka-%.6x", sha256.Sum256(pom)))
}
