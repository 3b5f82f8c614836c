// Package lease lets events of capped agents through, or not. Each ingest replica
// leases shares of what is left of a cap from the database, spends them without
// asking, and gives back what it does not use. Whatever happens to a replica, what
// all of them let through is at most the cap plus the one event that crosses it,
// because money is spent only after it was leased, and comes back only when it is
// certain that nothing of it is on its way. Moving the cost of stored events from
// leased to spent is the processor's.
package lease
