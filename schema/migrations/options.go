package migrations

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// MinRetention is the least time for which events are kept, in any account: an event may arrive 30 days late and then wait a week in
// Kafka, and it is to be found for a while after that.
const MinRetention = 46 * day

// ErrRetention is returned for a retention of less than MinRetention.
var ErrRetention = errors.New("events must be kept longer than they may be late")

// Options are the settings of a database that may change from one Up to the next. Each Up applies all of them again.
type Options struct {
	// ChunkInterval is the range of ts that one chunk of events holds; it holds for new chunks. Defaults to a day. It has
	// no meaning in the plain edition.
	ChunkInterval time.Duration
	// CompressAfter is the age from which chunks of events go to the columnstore. Defaults to 7 days. Community only.
	CompressAfter time.Duration
	// RawRetention is the age at which events are dropped, at least MinRetention; zero keeps them for ever. Their sums stay.
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
	o.LockTimeout = cmp.Or(o.LockTimeout, 10*time.Minute)
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}

// validate refuses what cannot be kept.
func (o Options) validate() error {
	for name, d := range map[string]time.Duration{
		"chunk interval": o.ChunkInterval, "columnstore after": o.CompressAfter, "lock timeout": o.LockTimeout,
	} {
		if d <= 0 {
			return fmt.Errorf("%s is %v: it must be positive", name, d)
		}
	}
	if o.RawRetention != 0 && o.RawRetention < MinRetention {
		return fmt.Errorf("%w: the retention is %v, and must be at least %v, or 0 to keep events for ever", ErrRetention, o.RawRetention, MinRetention)
	}
	return nil
}
