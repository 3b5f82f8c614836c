package main

import (
	"os"
	"runtime/debug"
)

// What the processes need besides --max-buffered-bytes before the garbage collector works
// harder, in bytes.
const (
	ingestMemory = 32 << 20
	upMemory     = 256 << 20
)

// limitMemory is GOMEMLIMIT unless the operator has set it: without one, the garbage
// collector lets memory grow to twice of what is in use, at any size.
func limitMemory(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}
