package migrations

import "time"

// span is a range of time, from inclusive, to exclusive.
type span struct{ from, to time.Time }

// spansOf returns the buckets of width that hold the times, neighbours joined. times must be in rising order.
func spansOf(times []time.Time, width time.Duration) []span {
	var spans []span
	for _, t := range times {
		from := t.Truncate(width)
		to := from.Add(width)
		if n := len(spans); n > 0 && !from.After(spans[n-1].to) {
			spans[n-1].to = to
			continue
		}
		spans = append(spans, span{from, to})
	}
	return spans
}

// fill joins all that ends above bottom into one span that starts at bottom or below, and leaves the rest as it is.
func fill(spans []span, bottom time.Time) []span {
	for i, s := range spans {
		if s.to.After(bottom) {
			rest := span{earlier(s.from, bottom), spans[len(spans)-1].to}
			return append(spans[:i:i], rest)
		}
	}
	return spans
}

// extend adds what is between from and to at the end, if that is behind the end.
func extend(spans []span, from, to time.Time) []span {
	if !from.Before(to) || len(spans) > 0 && !spans[len(spans)-1].to.Before(to) {
		return spans
	}
	return append(spans, span{from, to})
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
