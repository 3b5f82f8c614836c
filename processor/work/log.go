package work

import (
	"context"
	"log/slog"
)

// quiet returns a logger for River. What it says about single jobs, the wrapper of every job says in our words.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(atLeast{log.Handler(), slog.LevelWarn}) }

// atLeast lets only records of a level or above pass.
type atLeast struct {
	slog.Handler
	level slog.Level
}

// Enabled reports whether a level passes.
func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

// WithAttrs returns a handler that passes the same levels.
func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup returns a handler that passes the same levels.
func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}
