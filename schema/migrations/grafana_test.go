package migrations_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

const insufficientPrivilege = "42501"

const insertEvent = `
insert into events (
    ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit, status,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
    cost_nano_usd, cost_source, kafka_partition, kafka_offset)
values (now(), gen_random_uuid(), gen_random_uuid(), now(), 'a', 'openai', 'm', 'ses_1', false, 'ok', 1, 1, 0, 0, 0, 0, 1234567890,
    'calculated', 0, 0)`

// Grafana's role signs in with its password, reads every view of schema report in dollars, and nothing else.
func TestGrafanaReadsTheReportsOnly(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		admin := connect(t, db)
		up(t, admin, migrations.Options{GrafanaPassword: schematest.GrafanaPassword})
		exec(t, admin, insertEvent)
		if err := schematest.SumEvents(t.Context(), admin); err != nil {
			t.Fatal(err)
		}

		cfg, err := pgx.ParseConfig(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		cfg.User, cfg.Password = "outlay_grafana", schematest.GrafanaPassword
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		for _, view := range []string{"events", "usage_15m", "usage_hourly", "usage_daily"} {
			if got := one[string](t, conn, `select sum(cost_usd)::text from report.`+view); got != "1.234567890" {
				t.Errorf("cost in report.%s = %s, want 1.234567890", view, got)
			}
		}
		one[int](t, conn, `select count(*) from report.accounts`)

		for _, sql := range []string{
			`select count(*) from events`, `select count(*) from usage_daily`, `select count(*) from api_keys`,
			`select count(*) from users`, `select metadata from report.events`, `delete from report.events`,
			`set default_transaction_read_only = off; update report.accounts set name = 'x'`,
		} {
			if _, err := conn.Exec(t.Context(), sql); err == nil {
				t.Errorf("%s: nil, want an error", sql)
			}
		}
		var pgErr *pgconn.PgError
		_, err = conn.Exec(t.Context(), `select count(*) from users`)
		if !errors.As(err, &pgErr) || pgErr.Code != insufficientPrivilege {
			t.Errorf("select from users = %v, want SQLSTATE %s", err, insufficientPrivilege)
		}
	})
}

// A password that clients could spell in more than one way is refused.
func TestGrafanaPasswordIsASCII(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.DatabaseOf(t, migrations.Plain))
	err := migrations.Up(t.Context(), conn, migrations.Options{GrafanaPassword: "schlüssel", Log: quiet})
	if !errors.Is(err, migrations.ErrRolePassword) {
		t.Errorf("Up = %v, want ErrRolePassword", err)
	}
}
