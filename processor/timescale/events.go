package timescale

import "strings"

// separator joins tags and names on their way to the database. Control characters
// are refused in both, so it never stands in one.
const separator = "\x1f"

// newEvents returns the columns of table events.
func newEvents() *group[Item] {
	return newGroup("events", []column[Item]{
		// ts is the time of the call, by which events are partitioned; received_at is that of its arrival.
		{"ts", typeTimestamptz, func(a *array, i *Item) { a.time(i.Event.Time) }},
		{"account_id", typeUUID, func(a *array, i *Item) { a.id(i.Event.AccountID) }},
		{"event_id", typeUUID, func(a *array, i *Item) { a.id(i.Event.ID) }},
		{"received_at", typeTimestamptz, func(a *array, i *Item) { a.time(i.Event.ReceivedAt) }},
		{"agent", typeText, func(a *array, i *Item) { a.text(i.Event.Agent) }},
		{"provider", typeText, func(a *array, i *Item) { a.text(i.Event.Provider) }},
		{"model", typeText, func(a *array, i *Item) { a.text(i.Event.Model) }},
		{"session_id", typeText, func(a *array, i *Item) { a.text(i.Event.SessionID) }},
		{"session_implicit", typeBool, func(a *array, i *Item) { a.bool(i.Event.SessionImplicit) }},
		{"status", typeText, func(a *array, i *Item) { a.text(string(i.Event.Status)) }},
		{"error_type", typeText, func(a *array, i *Item) { a.optionalText(i.Event.ErrorType) }},
		{"step", typeText, func(a *array, i *Item) { a.optionalText(i.Event.Step) }},
		{"user_id", typeText, func(a *array, i *Item) { a.optionalText(i.Event.UserID) }},
		{"parent_event_id", typeUUID, func(a *array, i *Item) { a.optionalID(i.Event.Parent) }},
		{"input_tokens", typeInt8, func(a *array, i *Item) { a.int8(i.Event.InputTokens) }},
		{"output_tokens", typeInt8, func(a *array, i *Item) { a.int8(i.Event.OutputTokens) }},
		{"cache_read_tokens", typeInt8, func(a *array, i *Item) { a.int8(i.Event.CacheReadTokens) }},
		{"cache_write_tokens", typeInt8, func(a *array, i *Item) { a.int8(i.Event.CacheWriteTokens) }},
		{"cache_write_1h_tokens", typeInt8, func(a *array, i *Item) { a.int8(i.Event.CacheWrite1hTokens) }},
		{"reasoning_tokens", typeInt8, func(a *array, i *Item) { a.int8(i.Event.ReasoningTokens) }},
		{"latency_ms", typeInt8, func(a *array, i *Item) { a.latency(i.Event.LatencyMS) }},
		// Money is a whole number of nano-dollars from here to the response of the query tier.
		{"cost_nano_usd", typeInt8, func(a *array, i *Item) { a.int8(int64(i.Event.Cost)) }},
		{"cost_source", typeText, func(a *array, i *Item) { a.text(string(i.Event.Source)) }},
		{"price_id", typeText, func(a *array, i *Item) { a.optionalText(i.Event.PriceID) }},
		{"cost_breakdown", typeJSON, func(a *array, i *Item) { a.breakdown(i.Event.Breakdown) }},
		{"tags", typeTexts, func(a *array, i *Item) { a.optionalText(strings.Join(i.Event.Tags, separator)) }},
		{"metadata", typeJSON, func(a *array, i *Item) { a.optionalBytes(i.Event.Metadata) }},
		{"idempotency_key", typeText, func(a *array, i *Item) { a.optionalText(i.Event.IdempotencyKey) }},
		// Partition and offset order the events of a session that have one time, and distinguish events with one id.
		{"kafka_partition", typeInt4, func(a *array, i *Item) { a.int4(i.Partition) }},
		{"kafka_offset", typeInt8, func(a *array, i *Item) { a.int8(i.Offset) }},
	})
}
