package usage

import "time"

// Range is a span of time that starts and ends at a quarter of an hour, which is
// what the usage relations can distinguish.
type Range struct{ From, To time.Time }

// NewRange returns the least Range that holds from to to.
func NewRange(from, to time.Time) Range {
	r := Range{From: from.UTC().Truncate(quarter), To: to.UTC().Truncate(quarter)}
	if r.To.Before(to) {
		r.To = r.To.Add(quarter)
	}
	return r
}

const day = 24 * time.Hour

// Before returns the Range of the same length that ends where r begins.
func (r Range) Before() Range { return Range{From: r.From.Add(-r.To.Sub(r.From)), To: r.From} }

// days returns the whole UTC days inside r. What is left of r lies before and
// after them; without a whole day all of it lies before.
func (r Range) days() (from, to time.Time) {
	from, to = r.From.Truncate(day), r.To.Truncate(day)
	if from.Before(r.From) {
		from = from.Add(day)
	}
	if !from.Before(to) {
		return r.To, r.To
	}
	return from, to
}

// splitByDay returns the bounds of r and every UTC midnight between them.
func (r Range) splitByDay() []time.Time {
	bounds := []time.Time{r.From}
	for t := r.From.Truncate(day).Add(day); t.Before(r.To); t = t.Add(day) {
		bounds = append(bounds, t)
	}
	return append(bounds, r.To)
}
