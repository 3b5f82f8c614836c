package timescale

import (
	"cmp"
	"slices"

	"github.com/outlayhq/outlay/schema"
)

// spendKey is one row of spend: an agent's quarter of an hour by arrival.
type spendKey struct {
	account schema.ID
	agent   string
	bucket  int64 // Unix seconds
}

func (k spendKey) compare(other spendKey) int {
	return cmp.Or(compareIDs(k.account, other.account), cmp.Compare(k.agent, other.agent), cmp.Compare(k.bucket, other.bucket))
}

// spendSum is what a batch adds to a row of spend. Caps are charged by cost; events are for people.
type spendSum struct {
	cost   schema.Sum
	events int64
}

// leaseSum is what the events of a batch used of a lease, and the part of it that
// is stored: duplicates are not.
type leaseSum struct{ used, stored schema.Sum }

// compareIDs orders ids as PostgreSQL orders uuid.
func compareIDs(a, b schema.ID) int { return slices.Compare(a[:], b[:]) }

type (
	spendRow = entry[spendKey, spendSum]
	leaseRow = entry[schema.ID, leaseSum]
)

// newSpend returns the columns of table spend.
func newSpend() *group[spendRow] {
	return newGroup("spend", []column[spendRow]{
		{"account_id", typeUUID, func(a *array, r *spendRow) { a.id(r.key.account) }},
		{"agent", typeText, func(a *array, r *spendRow) { a.text(r.key.agent) }},
		{"bucket", typeTimestamptz, func(a *array, r *spendRow) { a.seconds(r.key.bucket) }},
		{"cost_nano_usd", typeNumeric, func(a *array, r *spendRow) { a.numeric(r.sum.cost) }},
		{"events", typeInt8, func(a *array, r *spendRow) { a.int8(r.sum.events) }},
	})
}

// newLeases returns what is charged to budget_leases.
func newLeases() *group[leaseRow] {
	return newGroup("leases", []column[leaseRow]{
		// What is used and not stored, as of duplicates, is free for the cap again.
		{"lease_id", typeUUID, func(a *array, r *leaseRow) { a.id(r.key) }},
		{"used", typeNumeric, func(a *array, r *leaseRow) { a.numeric(r.sum.used) }},
		{"stored", typeNumeric, func(a *array, r *leaseRow) { a.numeric(r.sum.stored) }},
	})
}
