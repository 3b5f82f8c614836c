// Package schematest gives a test what it runs on: a database of its own, migrated, in milliseconds, in each edition that the
// machine has, and a Kafka, real or fake. `make test` starts the servers once for all packages and names them in the
// environment; a test that is run alone gets its own, started when it first asks. What is not there skips the test, and fails
// it in CI, where only the TimescaleDB editions may be missing.
package schematest
