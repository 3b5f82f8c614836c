package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/outlayhq/outlay/ingest/replay"
	"github.com/outlayhq/outlay/schema/problem"
)

// capReached reports whether an event was refused by a cap.
func capReached(err error) bool {
	var p *problem.Problem
	return errors.As(err, &p) && p.Code == problem.BudgetExceeded
}

// errNotConfirmed is the answer when a cap would refuse an event that another replica
// may have recorded.
var errNotConfirmed = &problem.Problem{
	Code: problem.Internal,
	Detail: "The budget cap is reached, but it is not known yet whether this event was recorded before. " +
		"Send it again with the same idempotency_key and growing waits.",
	RetryAfter: time.Second,
}

// confirm looks at the events that a cap has refused. 402 means that an event is not
// recorded, but one with an idempotency key may have been recorded before by another
// replica: then it is a duplicate like any other.
func (s *Server) confirm(ctx context.Context, outcomes []outcome) {
	var keyed []*outcome
	var keys []replay.Key
	for i := range outcomes {
		o := &outcomes[i]
		switch {
		case !capReached(o.err):
		case o.event.IdempotencyKey == "":
			s.caps.Refused(o.event)
		default:
			keyed, keys = append(keyed, o), append(keys, replay.Key{Account: o.event.AccountID, Event: o.event.ID})
		}
	}
	if len(keys) == 0 {
		return
	}
	for i, answer := range s.replays.Check(ctx, keys) {
		o := keyed[i]
		switch answer {
		case replay.Recorded:
			o.err, o.duplicate = nil, true
		case replay.Unrecorded:
			s.caps.Refused(o.event)
		case replay.Unknown:
			o.err = errNotConfirmed
		}
		s.recent.land(o.admission, o.err)
	}
}
