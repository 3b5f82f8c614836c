package migrations

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// LateAfter is the age from which the processor must note the quarter hour of an event in late_buckets, by the database's
// clock and in the transaction that stores the event. Nothing younger than MaterializedAfter is ever materialised, and the
// time between the two is what a transaction and the clocks may take: an event that is not late is then always stored
// before its bucket is materialised.
const LateAfter = time.Hour

// MaterializedAfter is the age a bucket's end has at least when the bucket is materialised, at every level.
const MaterializedAfter = LateAfter + 15*time.Minute

// ErrHorizons is returned when the horizons of Options are not in their order.
var ErrHorizons = errors.New("horizons must keep the order late window < refresh window < raw retention, a day apart")

// Options are the settings of a database that may change from one Up to the next. Each Up applies all of them again.
type Options struct {
	// ChunkInterval is the range of ts that one chunk of events holds; it holds for new chunks. Defaults to a day. It has
	// no meaning in the plain edition.
	ChunkInterval time.Duration
	// CompressAfter is the age from which chunks of events go to the columnstore. Defaults to 7 days. Community only.
	CompressAfter time.Duration
	// LateWindow is the oldest an event may be when ingest accepts it, and the time it may then take to be stored.
	// Defaults to 37 days: 30 days of lateness and a week in Kafka.
	LateWindow time.Duration
	// RefreshWindow is how far back aggregates are computed again from raw events. Defaults to 45 days.
	RefreshWindow time.Duration
	// RawRetention is the age at which raw events are dropped; zero keeps them for ever. The aggregates of Community are
	// kept; in the other editions the sums go with the events.
	RawRetention time.Duration
	// IngestPassword, ProcessorPassword, QueryPassword and GrafanaPassword let the roles outlay_ingest, outlay_processor,
	// outlay_query and outlay_grafana sign in. Empty leaves the role as it is.
	IngestPassword, ProcessorPassword, QueryPassword, GrafanaPassword string
	// LockTimeout is how long to wait for another migration. Defaults to 10 minutes.
	LockTimeout time.Duration
	// Log defaults to slog.Default.
	Log *slog.Logger
}

const day = 24 * time.Hour

func (o Options) withDefaults() Options {
	o.ChunkInterval = cmp.Or(o.ChunkInterval, day)
	o.CompressAfter = cmp.Or(o.CompressAfter, 7*day)
	o.LateWindow = cmp.Or(o.LateWindow, 37*day)
	o.RefreshWindow = cmp.Or(o.RefreshWindow, 45*day)
	o.LockTimeout = cmp.Or(o.LockTimeout, 10*time.Minute)
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}

// validate refuses horizons that would lose or erase sums: a late event older than the refresh window never reaches the
// aggregates, and a refresh over dropped events empties them.
func (o Options) validate() error {
	for name, d := range map[string]time.Duration{
		"chunk interval": o.ChunkInterval, "columnstore after": o.CompressAfter, "late window": o.LateWindow,
		"refresh window": o.RefreshWindow, "lock timeout": o.LockTimeout,
	} {
		if d <= 0 {
			return fmt.Errorf("%s is %v: it must be positive", name, d)
		}
	}
	if o.RawRetention < 0 {
		return fmt.Errorf("raw retention is %v: it must be positive, or 0 to keep events for ever", o.RawRetention)
	}
	ordered := o.LateWindow+day <= o.RefreshWindow && (o.RawRetention == 0 || o.RefreshWindow+day <= o.RawRetention)
	if !ordered {
		return fmt.Errorf("%w: late window %v, refresh window %v, raw retention %v", ErrHorizons,
			o.LateWindow, o.RefreshWindow, o.RawRetention)
	}
	return nil
}
