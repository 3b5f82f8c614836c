package lease

import (
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// share is one lease of one period of one cap. Its meter's mu guards it.
type share struct {
	id     schema.ID
	window budget.Window
	epoch  int32
	// charged is the cost of all events let through under it that are or may be
	// recorded.
	charged schema.NanoUSD
	// leased says that the database knows or may know the lease.
	leased bool
	// final says that the database was asked for more and did not answer: the
	// share is used up, then closed.
	final bool
}

// Standing is where a cap stands as this replica knows it: exact when the cap was
// asked for last, and never less than what is left by more than other replicas
// have given back since.
type Standing struct {
	Budget    budget.Budget
	Remaining schema.NanoUSD
	// ResetsAt is when the next period starts; zero for a cap that never does.
	ResetsAt time.Time
}

// Spent is what counts as spent or on its way.
func (s Standing) Spent() schema.NanoUSD { return s.Budget.Limit - s.Remaining }
