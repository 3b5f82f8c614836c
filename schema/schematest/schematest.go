// Package schematest gives a test what it runs on: a database of its own, migrated, in milliseconds, in each edition that the
// machine has, and a Kafka, real or fake. `make test` starts the servers once for all packages and names them in the
// environment; a test that is run alone gets its own, started when it first asks. What is not there skips the test, and fails
// it in CI, where only the TimescaleDB editions may be missing.
package schematest

import (
	"os"
	"testing"
)

// missing ends a test that lacks a server: with a failure where everything has to be there.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" || os.Getenv("OUTLAY_TEST_REQUIRE") == "1" {
		t.Fatalf("%v, and here it has to be there", err)
	}
	t.Skipf("%v: run make test", err)
}
