package advisory_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/schema/advisory"
)

// No two locks have the same number.
func TestKeysDiffer(t *testing.T) {
	t.Parallel()
	names := map[advisory.Key]string{}
	for name, key := range advisory.Keys() {
		if other, taken := names[key]; taken {
			t.Errorf("%s and %s are both %#x", name, other, int64(key))
		}
		names[key] = name
	}
}

// call is a use of an advisory lock in SQL with its first argument.
var call = regexp.MustCompile(`pg_(?:try_)?advisory_(?:xact_)?(?:un)?lock(?:_shared)?\(\s*([^,)]*)`)

// Every lock that is taken anywhere, in Go or in a migration, comes from the registry: it is a parameter of the statement or a name
// in a migration, never a number that nobody else knows of.
func TestEveryLockComesFromTheRegistry(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".sql" && filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, use := range call.FindAllStringSubmatch(string(text), -1) {
			found++
			name, inMigration := strings.CutPrefix(use[1], "{{ .Locks.")
			_, known := advisory.Keys()[strings.TrimSuffix(name, " }}")]
			if !strings.HasPrefix(use[1], "$") && !(inMigration && known) {
				t.Errorf("%s takes the advisory lock %q: add it to the registry", path, use[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 8 {
		t.Errorf("found only %d uses of advisory locks", found)
	}
}
