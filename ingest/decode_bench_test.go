package ingest

import (
	"testing"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/wire"
)

// BenchmarkPrepare is what one event costs besides HTTP and Kafka: reading,
// validating, pricing, encoding.
func BenchmarkPrepare(b *testing.B) {
	bodies := trackBodies()
	s := fuzzServer()
	var buf []byte
	r, e := new(request), new(schema.Event)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := decode([]byte(bodies[i%len(bodies)]), r); err != nil {
			b.Fatal(err)
		}
		if a := s.event(e, r, fuzzAccount, s.arrival()); a.unfit != nil {
			b.Fatal(a.unfit)
		}
		buf = wire.Append(buf[:0], e)
		r.memory.empty()
		r.next()
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
			r := new(request)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if !reader.read([]byte(bodies[i%len(bodies)]), r) {
					b.Fatal("not read")
				}
				r.memory.empty()
				r.next()
				i++
			}
		})
	}
}
