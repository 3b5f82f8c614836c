// Package record is the second of ingest's three rooms: it records events. It recognises events that are sent again by
// their idempotency keys, charges the caps of the others, writes them to Kafka and waits for the acknowledgement of all
// in-sync replicas; an event without error is recorded when Record returns. It also bounds the memory of all requests,
// so that it stays bounded while Kafka does not answer.
package record
