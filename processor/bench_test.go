package processor

import (
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/schematest"
)

// BenchmarkPipe measures the whole way from Kafka to the table: broker and
// database are processes of their own, so this process's CPU time is the
// processor's.
func BenchmarkPipe(b *testing.B) {
	f := newFixture(b, schematest.Database(b), schematest.Kafka(b))
	debug.SetGCPercent(GCPercent)
	const chunk = 20_000
	produced := 0
	for produced < 200_000 {
		f.produce(b, f.events(produced, produced+chunk)...)
		produced += chunk
	}
	f.poll = 200 * time.Millisecond // asking costs this process's time too
	var events int
	var spent, took time.Duration
	for b.Loop() {
		start, cpu := time.Now(), cpuTime(b)
		p := f.start(b, func(c *Config) { c.BatchRecords = DefaultConfig().BatchRecords })
		f.await(b, plain(int64(produced)))
		spent, took, events = spent+cpuTime(b)-cpu, took+time.Since(start), events+produced
		p.stop()
		// A further round starts anew.
		f.rewind(b)
	}
	b.ReportMetric(float64(events)/took.Seconds(), "events/s")
	b.ReportMetric(float64(spent.Nanoseconds())/1000/float64(events), "cpu-us/event")
}

func (f *fixture) rewind(b *testing.B) {
	b.Helper()
	if _, err := f.db.Pool.Exec(b.Context(), `TRUNCATE events, kafka_offsets, spend`); err != nil {
		b.Fatal(err)
	}
}

// cpuTime is what this process has used so far, in user and kernel mode.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
