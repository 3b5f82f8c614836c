// Package need ends tests on a machine that lacks what they need. There they are skipped; where everything has to be there, as in
// CI, they fail, so that nothing goes untested without anybody noticing. It needs no other package of Outlay, so that the tests of
// all of them can use it.
package need

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Missing ends a test that lacks something: err says what.
func Missing(t testing.TB, err error) {
	t.Helper()
	if Everything() {
		t.Fatalf("%v, and here it has to be there", err)
	}
	t.Skipf("%v: run make test", err)
}

// Everything reports whether everything that tests need has to be there.
func Everything() bool {
	return os.Getenv("CI") == "true" || os.Getenv("OUTLAY_TEST_REQUIRE") == "1"
}

// Program returns the path of a program, or ends the test.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	// haproxy is installed where an ordinary user's PATH does not look.
	if path, err := exec.LookPath(filepath.Join("/usr/sbin", name)); err == nil {
		return path
	}
	Missing(t, err)
	return ""
}
