package query_test

import (
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

func copyRows(rows [][]any) pgx.CopyFromSource { return pgx.CopyFromRows(rows) }

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func latencyOrNull(ms int64) any {
	if ms == schema.NoLatency {
		return nil
	}
	return ms
}

func parentOrNull(id schema.ID) any {
	if id.IsZero() {
		return nil
	}
	return id
}

func jsonOrNull(text []byte) any {
	if text == nil {
		return nil
	}
	return json.RawMessage(text)
}

// exec runs a statement as the database's owner.
func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.pool.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}
