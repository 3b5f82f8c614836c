package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/outlayhq/outlay/schema/migrations"
)

// settings returns the server's arguments: our defaults, what the edition needs, and the caller's own, which win. They are
// given at every start, so that a data directory made by an older version runs with today's.
func settings(e migrations.Edition, port int, own map[string]string) []string {
	all := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": "", // A socket's path has a limit that a data directory may exceed.
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"cluster_name":            "outlay",
		"max_connections":         "200",
		// The defaults of PostgreSQL are for small machines: these keep recent chunks in memory and spread checkpoints, so that writes
		// do not stall.
		"shared_buffers":     "512MB",
		"max_wal_size":       "4GB",
		"checkpoint_timeout": "15min",
		"random_page_cost":   "1.1",
		"jit":                "off", // Compiling costs more than it saves on short queries over many chunks.
		"log_min_messages":   "warning",
		// A query over a hypertable locks every chunk and index it plans for.
		"max_locks_per_transaction": "256",
	}
	if e != migrations.Plain {
		maps.Copy(all, map[string]string{
			"shared_preload_libraries":    "timescaledb",
			"timescaledb.license":         license(e),
			"timescaledb.telemetry_level": "off",
			"max_worker_processes":        "32", // TimescaleDB's 16, and those of parallel queries.
		})
	}
	maps.Copy(all, own)
	args := make([]string, 0, 2*len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", fmt.Sprintf("%s=%s", name, all[name]))
	}
	return args
}

// license is the name that TimescaleDB has for an edition.
func license(e migrations.Edition) string {
	if e == migrations.Community {
		return "timescale"
	}
	return "apache"
}
