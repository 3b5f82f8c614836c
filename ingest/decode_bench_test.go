package ingest

import (
	"testing"

	"github.com/outlayhq/outlay/schema/wire"
)

// BenchmarkPrepare is what one event costs besides HTTP and Kafka: reading,
// validating, pricing, encoding.
func BenchmarkPrepare(b *testing.B) {
	bodies := trackBodies()
	s := fuzzServer()
	var buf []byte
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r := spareRequests.Get().(*request)
		if err := decode([]byte(bodies[i%len(bodies)]), r); err != nil {
			b.Fatal(err)
		}
		e, err := s.event(r, fuzzAccount, s.arrival())
		if err != nil {
			b.Fatal(err)
		}
		buf = wire.Append(buf[:0], e)
		r.release()
		i++
	}
}

// BenchmarkDecode compares the two readers of an event.
func BenchmarkDecode(b *testing.B) {
	bodies := trackBodies()
	readers := []struct {
		name string
		read func([]byte, *request) bool
	}{
		{"scan", func(text []byte, r *request) bool { _, ok := scan(text, r); return ok }},
		{"strict", func(text []byte, r *request) bool { _, err := decodeStrictly(text, r); return err == nil }},
	}
	for _, reader := range readers {
		b.Run(reader.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r := spareRequests.Get().(*request)
				if !reader.read([]byte(bodies[i%len(bodies)]), r) {
					b.Fatal("not read")
				}
				r.release()
				i++
			}
		})
	}
}
