package ingest

import "testing"

// BenchmarkPrepare is what one event costs besides HTTP and Kafka: reading, validating, pricing, answering.
func BenchmarkPrepare(b *testing.B) {
	bodies := trackBodies()
	s := fuzzServer()
	batch := s.newBatch(fuzzCredential)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		batch.read([]byte(bodies[i%len(bodies)]))
		r := &batch.records[0]
		if r.Err != nil || r.Invalid != nil {
			b.Fatal(r.Err, r.Invalid)
		}
		r.Event = &batch.events[0]
		batch.answer = s.appendResult(b.Context(), append(batch.answer, '{'), r)
		batch.reset()
		batch.key = fuzzCredential.Grant
		batch.request.Release()
		i++
	}
}
