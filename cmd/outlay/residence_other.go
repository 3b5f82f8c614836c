//go:build !linux

package main

import "context"

// releaseStart does nothing: other systems have no call for it.
func releaseStart(context.Context) error { return nil }
