package secret_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/schema/secret"
)

func load(t *testing.T, lines ...string) *secret.Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := secret.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// A sealed secret shows nothing of itself, opens in its own place only, and with any key
// of the file.
func TestSealAndOpen(t *testing.T) {
	t.Parallel()
	older, newer := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	before, both, after := load(t, older), load(t, newer, older), load(t, newer)
	const plain = "whsec_c2VjcmV0"
	sealed := before.Seal(plain, "row 1")
	if strings.Contains(sealed, plain) || sealed == before.Seal(plain, "row 1") || !strings.HasPrefix(sealed, before.Prefix()) {
		t.Errorf("sealed = %q", sealed)
	}
	for name, keys := range map[string]*secret.Keys{"the same key": before, "a newer key first": both} {
		if got, err := keys.Open(sealed, "row 1"); err != nil || got != plain {
			t.Errorf("with %s: Open = %q, %v", name, got, err)
		}
	}
	for name, open := range map[string]func() (string, error){
		"another place": func() (string, error) { return before.Open(sealed, "row 2") },
		"another key":   func() (string, error) { return after.Open(sealed, "row 1") },
		"no key":        func() (string, error) { return (&secret.Keys{}).Open(sealed, "row 1") },
		"changed":       func() (string, error) { return before.Open(sealed[:len(sealed)-2]+"AA", "row 1") },
		"cut":           func() (string, error) { return before.Open(before.Prefix(), "row 1") },
		"no base64":     func() (string, error) { return before.Open(before.Prefix()+"!", "row 1") },
		"no key id":     func() (string, error) { return before.Open("enc1:", "row 1") },
	} {
		if got, err := open(); !errors.Is(err, secret.ErrNoKey) || got != "" {
			t.Errorf("%s: Open = %q, %v, want ErrNoKey", name, got, err)
		}
	}
	if got := both.Seal(plain, "x"); !strings.HasPrefix(got, after.Prefix()) {
		t.Errorf("%q was not sealed with the first key", got)
	}
}

// Without a key secrets stay as they are, and a key opens those as well.
func TestWithoutAKey(t *testing.T) {
	t.Parallel()
	none, err := secret.Load("")
	if err != nil || none.Encrypts() {
		t.Fatalf("Load of no file = %v, %v", none, err)
	}
	if got := none.Seal("s", "x"); got != "s" {
		t.Errorf("Seal = %q", got)
	}
	if got, err := load(t, strings.Repeat("ab", 32)).Open("s", "x"); err != nil || got != "s" {
		t.Errorf("Open = %q, %v", got, err)
	}
}

// A new key file is its owner's alone, and is not written over. A file that holds anything
// but keys is refused.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	if err := secret.Create(path); err != nil {
		t.Fatal(err)
	}
	if err := secret.Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create again = %v, want fs.ErrExist", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if keys, err := secret.Load(path); err != nil || !keys.Encrypts() {
		t.Errorf("Load = %v, %v", keys, err)
	}
	for _, bad := range []string{"", "\n", "abcd", strings.Repeat("xy", 32), strings.Repeat("ab", 32) + "\nshort"} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := secret.Load(path); err == nil {
			t.Errorf("a file with %q was taken", bad)
		}
	}
}
