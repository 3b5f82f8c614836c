package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// quietHandler logs at Debug that a part of a tier has lost the database. Every part
// notices it, again and again, while watchReadiness logs for all of them what the tier
// waits for. Whatever else a database answers stays as loud as it is, and so does that a
// request failed: its client has the request's id and nothing else.
type quietHandler struct{ slog.Handler }

// Handle lowers the level of a record whose error is a lost database, unless it is about
// a request.
func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	// Records below are either wanted by somebody who looks for causes or not enabled at all.
	if r.Level >= slog.LevelWarn {
		var lost, request bool
		r.Attrs(func(a slog.Attr) bool {
			switch a.Key {
			case "error":
				err, ok := a.Value.Any().(error)
				lost = ok && databaseLost(err)
			case "request_id":
				request = true
			}
			return true
		})
		if lost && !request {
			r.Level = slog.LevelDebug
		}
		if !h.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the handler around the new one.
func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the handler around the new one.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}

// databaseLost reports whether there is no connection to the database, or one was cut off
// by its end. A database that lets nobody in is not lost: that takes a change of settings.
// pgx returns a plain io.ErrUnexpectedEOF when a server is gone without a word, which a
// file or a response that is cut short is as well: that stays loud.
func databaseLost(err error) bool {
	// Class 57P is the operator's doing, class 08 the network's.
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		switch answer.Code {
		case "57P01", "57P02", "57P03": // shut down, crashed, starting up
			return true
		}
		return strings.HasPrefix(answer.Code, "08") // connection exceptions
	}
	return errors.As(err, new(*pgconn.ConnectError))
}
