package usage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
)

// A statement that is asked once is in a transaction of its account that reads, may run
// no longer than others, and gives its connection back whatever becomes of it.
func TestOnce(t *testing.T) {
	t.Parallel()
	pool := schematest.Database(t).Pool
	accountID := schema.NewID(time.Now())
	once := usage.NewStore(pool, time.Minute).Once(accountID)
	for range 2 * int(pool.Config().MaxConns) {
		var account schema.ID
		var isolation, readOnly, timeout string
		err := once.QueryRow(t.Context(), `SELECT current_account(), current_setting('transaction_isolation'),
			current_setting('transaction_read_only'), current_setting('statement_timeout')`).Scan(&account, &isolation, &readOnly, &timeout)
		if err != nil || account != accountID || isolation != "repeatable read" || readOnly != "on" || timeout != "1min" {
			t.Fatalf("account %v, isolation %s, read only %s, timeout %s: %v", account, isolation, readOnly, timeout, err)
		}
		if err := once.QueryRow(t.Context(), `SELECT 1 WHERE false`).Scan(); !errors.Is(err, pgx.ErrNoRows) {
			t.Fatalf("no row = %v, want ErrNoRows", err)
		}
		if err := once.QueryRow(t.Context(), `SELECT 1 / (random() * 0)::int`).Scan(&isolation); err == nil || errors.Is(err, pgx.ErrNoRows) {
			t.Fatalf("a statement that fails = %v", err)
		}
		if err := once.QueryRow(t.Context(), `SELECT FROM nowhere`).Scan(); err == nil || errors.Is(err, pgx.ErrNoRows) {
			t.Fatalf("a statement that is none = %v", err)
		}
		if _, err := once.Exec(t.Context(), `INSERT INTO accounts (id, name) VALUES (gen_random_uuid(), 'x')`); err == nil {
			t.Fatal("a statement that writes is not refused")
		}
		rows, err := once.Query(t.Context(), `SELECT generate_series(1, 100)`)
		if err != nil || !rows.Next() {
			t.Fatal(err)
		}
		rows.Close() // before the last of them
	}
	// What comes after is no part of it.
	var account *schema.ID
	if err := pool.QueryRow(t.Context(), `SELECT current_account()`).Scan(&account); err != nil || account != nil {
		t.Errorf("account %v: %v", account, err)
	}
	once = usage.NewStore(pool, time.Second/4).Once(accountID)
	if err := once.QueryRow(t.Context(), `SELECT pg_sleep(600)`).Scan(nil); !errors.Is(err, usage.ErrTimeout) {
		t.Errorf("a statement that takes too long = %v, want ErrTimeout", err)
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are not given back", n)
	}
}
