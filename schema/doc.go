// Package schema holds the nouns that the tiers agree on: the event, its
// identifiers, its money and its limits. Ingest fills an Event, Kafka carries
// it, the processor stores it and the query tier shows it; none of those
// packages imports another, they meet here. Only the standard library is used.
package schema
