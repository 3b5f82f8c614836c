package query

import (
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
)

// maxIntegrityHours bounds an answer: 90 days.
const maxIntegrityHours = 90 * 24

// integrityReply compares what was accepted with what became of it.
type integrityReply struct {
	From usage.Time `json:"from"`
	To   usage.Time `json:"to"`
	// Data has the hours in which something arrived.
	Data          []intakeHourReply `json:"data"`
	Totals        intakeReply       `json:"totals"`
	CompleteUntil usage.Time        `json:"complete_until"`
}

// intakeHourReply is one hour of arrival in UTC.
type intakeHourReply struct {
	Hour usage.Time `json:"hour"`
	// Complete says that nothing more can come to the hour.
	Complete bool `json:"complete"`
	intakeReply
}

// intakeReply adds up: Accepted is the sum of the next four and of Difference, which is 0 when nothing is missing.
type intakeReply struct {
	// Accepted counts records taken from Kafka.
	Accepted int64 `json:"accepted"`
	Stored   int64 `json:"stored"`
	// Duplicates had an idempotency key that was stored already.
	Duplicates   int64 `json:"duplicates"`
	DeadLettered int64 `json:"dead_lettered"`
	// RefusedLate were refused by a cap after their replica was cut off; their clients got 500.
	RefusedLate int64 `json:"refused_late"`
	// Found are stored events that are there now, null unless verify=true asked for counting them.
	Found      *int64 `json:"found"`
	Difference int64  `json:"difference"`
}

func newIntakeReply(i *usage.Intake) intakeReply {
	return intakeReply{i.Accepted, i.Stored, i.Duplicates, i.DeadLettered, i.RefusedLate, i.Found, i.Difference()}
}

// integrity answers, hour by hour of arrival, whether what was accepted is what was
// stored, recognised as a duplicate, put aside or refused.
func (s *Server) integrity(c *rest.Request) error {
	p := c.Params("from", "to", "verify")
	from, to := p.Span(time.UTC, s.now(), rest.DaysBefore(1))
	verify := p.Flag("verify", false)
	// Counts are kept by whole hours of arrival.
	from, to = from.Truncate(time.Hour), to.Add(time.Hour-time.Microsecond).Truncate(time.Hour)
	// Counting them reads the events themselves.
	if to.Sub(from) > maxIntegrityHours*time.Hour {
		p.Faults.Add("from", "must be at most 90 days before to")
	}
	if err := p.Err(); err != nil {
		return err
	}
	hours, until, err := s.usage.Integrity(c.Ctx(), c.Who.AccountID, from, to, verify)
	if err != nil {
		return storeError(err, "hour")
	}
	reply := integrityReply{
		From: usage.Time{Time: from.UTC()}, To: usage.Time{Time: to.UTC()}, Data: make([]intakeHourReply, 0, len(hours)), CompleteUntil: until,
	}
	var found int64
	// A total without one hour would look like a loss.
	allFound := verify
	for i := range hours {
		h := &hours[i]
		// until is when the processor was last seen to have stored everything.
		end := h.Hour.Add(time.Hour)
		reply.Data = append(reply.Data, intakeHourReply{h.Hour, !until.IsZero() && !until.Before(end), newIntakeReply(&h.Intake)})
		reply.Totals.add(&reply.Data[i].intakeReply)
		if h.Found == nil {
			allFound = false
			continue
		}
		found += *h.Found
	}
	if allFound {
		reply.Totals.Found = &found
	}
	return c.Reply(reply)
}

// add adds an hour, but for what was found.
func (r *intakeReply) add(hour *intakeReply) {
	r.Accepted += hour.Accepted
	r.Stored += hour.Stored
	r.Duplicates += hour.Duplicates
	r.DeadLettered += hour.DeadLettered
	r.RefusedLate += hour.RefusedLate
	r.Difference += hour.Difference
}
