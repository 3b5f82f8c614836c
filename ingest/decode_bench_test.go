package ingest

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/wire"
)

// BenchmarkPrepare is what one event costs besides HTTP and Kafka: reading,
// validating, pricing, encoding.
func BenchmarkPrepare(b *testing.B) {
	bodies := trackBodies()
	s := &Server{cfg: DefaultConfig(), prices: defaultPrices, now: time.Now, log: slog.New(slog.DiscardHandler), metrics: newMetrics(prometheus.NewRegistry())}
	owner := schema.NewID(time.Now())
	var buf []byte
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		var r request
		if err := decode(bytes.NewBufferString(bodies[i%len(bodies)]), &r); err != nil {
			b.Fatal(err)
		}
		e, err := s.event(&r, owner)
		if err != nil {
			b.Fatal(err)
		}
		buf = wire.Append(buf[:0], e)
		i++
	}
}

func BenchmarkDecode(b *testing.B) {
	bodies := trackBodies()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		var r request
		if err := decode(bytes.NewBufferString(bodies[i%len(bodies)]), &r); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
