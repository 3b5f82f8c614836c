package lease

import (
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// share is one lease of one cap: for events that arrive in one quarter hour, so that
// whatever becomes of the cap it is known which periods they count in. Its meter's mu
// guards what changes.
type share struct {
	id schema.ID
	// bucket is the start of the quarter hour, window the period that it is of.
	bucket time.Time
	window budget.Window
	// period, timezone and epoch are the cap's as this replica knew them.
	period   budget.Period
	timezone string
	epoch    int32
	// charged is the cost of all events let through under it that are or may be
	// recorded.
	charged schema.NanoUSD
	// used is the part of charged that the database had read when it was asked last.
	used schema.NanoUSD
	// leased says that the database knows or may know the lease, as one of replica.
	leased  bool
	replica schema.ID
	// inFlight is how many events were charged to it of which more may be written to Kafka. Until there is none the lease
	// stays open, because the processor gives the money of a closed one to others.
	inFlight int
	// kept is what the database was asked to leave leased of it when it went out of use; returned says that it was asked.
	kept     schema.NanoUSD
	returned bool
	// final says that the database was asked for more and did not answer: the
	// share is used up, then closed.
	final bool
}

// over reports whether events that arrive at t need another share.
func (s *share) over(t time.Time) bool { return !t.Before(s.bucket.Add(budget.Bucket)) }

// Standing is where a cap stands as this replica knows it.
type Standing struct {
	Budget budget.Budget
	// Spent is what the database knew as spent when it was asked last and what this
	// replica has recorded since. It may be above the cap.
	Spent schema.NanoUSD
	// Remaining is what this replica would still let through: what other replicas hold or
	// have on their way is not in it.
	Remaining schema.NanoUSD
	// ResetsAt is when the next period starts; zero for a cap that never does.
	ResetsAt time.Time
}
