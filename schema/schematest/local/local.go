// Package local starts the servers that the tests run on: PostgreSQL in each edition that this machine has, and a real Kafka.
// They are fast rather than durable, live in a directory of the process that started them, and end with it. The tests get
// them through schematest.
package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/outlayhq/outlay/deploy/postgres"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest/kafka"
)

// KafkaVar is the environment variable with the address of a Kafka that tests may use.
const KafkaVar = "OUTLAY_TEST_KAFKA"

// PostgresVar is the environment variable with the URL of a server of an edition that tests may use. Its user is a superuser.
func PostgresVar(e migrations.Edition) string {
	return "OUTLAY_TEST_POSTGRES_" + strings.ToUpper(string(e))
}

// Settings are those of a server that many tests share: no waiting for the disk, no jobs that run by themselves. A
// TimescaleDB with one background worker has its launcher and no scheduler; a test runs a job when it wants it run.
func Settings() map[string]string {
	return map[string]string{
		"fsync":                              "off",
		"full_page_writes":                   "off",
		"shared_buffers":                     "256MB",
		"max_wal_size":                       "1GB",
		"timescaledb.max_background_workers": "1",
	}
}

// Postgres starts a server of an edition. Where none is installed a plain one is fetched.
func Postgres(ctx context.Context, e migrations.Edition) (*postgres.Server, error) {
	base, err := dir()
	if err != nil {
		return nil, fmt.Errorf("find a directory for test servers: %w", err)
	}
	return postgres.Start(ctx, postgres.Config{DataDir: filepath.Join(base.path, "postgres-"+string(e)), Edition: e, Settings: Settings()})
}

// Kafka starts a broker.
func Kafka(ctx context.Context, libs kafka.Libs) (*kafka.Broker, error) {
	base, err := dir()
	if err != nil {
		return nil, fmt.Errorf("find a directory for test servers: %w", err)
	}
	own, err := os.MkdirTemp(base.path, "kafka-")
	if err != nil {
		return nil, fmt.Errorf("find a directory for kafka: %w", err)
	}
	return kafka.Start(ctx, libs, own)
}
