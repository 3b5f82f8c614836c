package work

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// quiet returns a logger for River. What it says about single jobs, the wrapper of every job says in our words; that its
// database is away, the tier says once for all its parts.
func quiet(log *slog.Logger, pool *pgxpool.Pool) *slog.Logger {
	return slog.New(riverHandler{log.Handler(), pool})
}

// riverHandler lets only warnings and errors pass, and those at Debug while the database does not answer. River's errors are
// text, so it asks the database.
type riverHandler struct {
	slog.Handler
	pool *pgxpool.Pool
}

// Enabled reports whether a level passes.
func (h riverHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// askTimeout bounds how long a record waits for the database.
const askTimeout = time.Second

// Handle logs a record.
func (h riverHandler) Handle(ctx context.Context, r slog.Record) error {
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	if h.away(h.pool.Ping(ask)) {
		if r.Level = slog.LevelDebug; !h.Handler.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// away reports whether a ping failed because the database is away, and not for want of a free connection: then it is River's
// complaint that says so.
func (h riverHandler) away(err error) bool {
	s := h.pool.Stat()
	return err != nil && (!errors.Is(err, context.DeadlineExceeded) || s.AcquiredConns() < s.MaxConns())
}

// WithAttrs returns a handler that passes the same records.
func (h riverHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return riverHandler{h.Handler.WithAttrs(attrs), h.pool}
}

// WithGroup returns a handler that passes the same records.
func (h riverHandler) WithGroup(name string) slog.Handler {
	return riverHandler{h.Handler.WithGroup(name), h.pool}
}
