// Package decode is the first of ingest's three rooms: it turns what a client sent, a JSON object, an element of a
// batch or an OpenTelemetry span, into a validated and priced schema.Event. All JSON is read by jsontext in its strict
// mode, and every error of an event is collected, so that a client learns of all of them at once. Nothing here waits
// or keeps state between events, except for memory that is used again.
package decode
