// Package timescale is where the processor's batches end: one statement stores
// the events of a batch, moves spend and moves the Kafka offsets by
// compare-and-set, so that each record has its effect exactly once whoever
// tries, and however often. Deciding what to do about an error is left to the
// processor.
package timescale
