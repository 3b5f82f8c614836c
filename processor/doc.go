// Package processor is the tier between Kafka and the database: it polls a batch
// of records, decodes them and stores them together with the position they bring
// their partitions to, all in one statement. The position in the database is the
// only one that counts: what Kafka knows of the group's offsets is for tools that
// show lag. It promises that each record has its effect exactly once, across
// crashes, rebalances and processors that were paused and wake up later.
package processor
