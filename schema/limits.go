package schema

import "time"

// Limits of what a client may send. Text is counted in characters.
const (
	// MaxNameLength bounds agent, model, provider, session_id, step, user_id
	// and error_type.
	MaxNameLength = 200
	// MaxIdempotencyKeyLength bounds idempotency_key.
	MaxIdempotencyKeyLength = 255
	// MaxTags bounds how many tags an event may have.
	MaxTags = 16
	// MaxTagLength bounds each of them.
	MaxTagLength = 64
	// MaxCount bounds token counts and latency_ms: 2^53-1, the largest integer
	// that every JSON implementation keeps exactly.
	MaxCount int64 = 1<<53 - 1

	// MaxMetadataBytes, MaxMetadataDepth and MaxMetadataNodes bound metadata. Its nodes
	// are the values in it, objects and arrays included; a name is no node of its own.
	MaxMetadataBytes = 64 << 10
	MaxMetadataDepth = 8
	MaxMetadataNodes = 512
	// MaxNumberLength and MaxNumberExponent bound a number inside metadata:
	// PostgreSQL would write out "1e131071" with all its digits.
	MaxNumberLength   = 32
	MaxNumberExponent = 308

	// MaxEventAge and MaxEventAhead bound how far timestamp may be from the
	// time of arrival.
	MaxEventAge   = 30 * 24 * time.Hour
	MaxEventAhead = 5 * time.Minute
)
