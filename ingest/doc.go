// Package ingest is the tier that agents talk to: HTTP in, Kafka out. It checks
// the API key, reads and validates the event, prices it, writes it to Kafka and
// answers 200 only after Kafka has acknowledged it on every in-sync replica. It
// keeps what it needs to decide in memory and so goes on while the database is
// away. Storing is left to the processor.
package ingest
