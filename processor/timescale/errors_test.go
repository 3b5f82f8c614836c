package timescale_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlayhq/outlay/processor/timescale"
)

// What a repeat does not cure is found in smaller parts; a database that is away, full
// of connections or shutting down is waited for, with the batch as it is.
func TestClassifyByState(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]timescale.Class{
		"22021": timescale.Data, "23514": timescale.Data, "54000": timescale.Data, "54001": timescale.Data,
		"53200": timescale.Unprocessable, "53400": timescale.Unprocessable,
		"XX000": timescale.Unprocessable, "XX001": timescale.Unprocessable, "XX002": timescale.Unprocessable,
		"08006": timescale.Transient, "53000": timescale.Transient, "53100": timescale.Transient, "53300": timescale.Transient,
		"57014": timescale.Transient, "57P01": timescale.Transient, "58030": timescale.Transient, "40001": timescale.Transient,
		"OL003": timescale.Transient, "": timescale.Transient,
	} {
		if got := timescale.Classify(fmt.Errorf("save: %w", &pgconn.PgError{Code: state})); got != want {
			t.Errorf("SQLSTATE %q is %s, want %s", state, got, want)
		}
	}
}
