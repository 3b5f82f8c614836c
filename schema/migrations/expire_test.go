package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// accountID is the account that a testEvent names by its number.
func accountID(n int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", n) }

// keepFor makes accounts 1 to 3 and has the first keep its events for some days.
func keepFor(t *testing.T, conn *pgx.Conn, days int) {
	t.Helper()
	for n := 1; n <= 3; n++ {
		exec(t, conn, `insert into accounts (id, name) values ($1, 'test') on conflict do nothing`, accountID(n))
	}
	exec(t, conn, `insert into account_retention (account_id, retention_days, updated_at) values ($1, $2, now())`, accountID(1), days)
}

func expire(t *testing.T, conn *pgx.Conn) migrations.Expired {
	t.Helper()
	done, err := migrations.ExpireAccounts(t.Context(), conn, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// fewDays are events of account n, one for each day back from the present.
func fewDays(n, days int) []testEvent {
	events := make([]testEvent, days)
	for i := range events {
		e := event(time.Now().Add(-time.Duration(i)*day - time.Minute))
		e.Account, e.Cost = n, int64(1000*n+i)
		events[i] = e
	}
	return events
}

const countOlder = `select count(*) from events where account_id = $1 and ts < now() - make_interval(days => $2)`

// The events of one account go and those of others stay, from the columnstore too. Sums stay where there are aggregates: by
// itself, with the policies that run after it, and when an event comes in for the time that was deleted.
func TestAccountRetentionDeletesEventsAndKeepsTheSums(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := still(t, db)
		keepFor(t, conn, 60)
		insert(t, conn, fewDays(1, 100)...)
		insert(t, conn, fewDays(2, 100)...)
		community := db.Edition == migrations.Community
		if community {
			for _, view := range []string{"usage_15m", "usage_hourly", "usage_daily", "usage_daily_agents"} { // As their policies did at the time.
				exec(t, conn, `call refresh_continuous_aggregate(('aggregates.' || $1)::regclass, null, now() - interval '75 minutes')`, view)
			}
			settleAll(t, conn)
			exec(t, conn, `select compress_chunk(c) from show_chunks('events', older_than => interval '20 days') c`)
		}
		want := usage(t, conn)
		done := expire(t, conn)
		if done.Events < 38 || done.Events > 40 {
			t.Errorf("%d events deleted, want those of 39 days", done.Events)
		}
		for account, most := range map[int]int{1: 1, 2: 40} { // The day that is not over 60 days ago is kept whole.
			if n := one[int](t, conn, countOlder, accountID(account), 60); n > most || account == 2 && n != most {
				t.Errorf("account %d has %d events of before its retention, want %d", account, n, most)
			}
		}
		if n := one[int](t, conn, `select count(*) from events where account_id = $1 and ts > now() - interval '59 days'`, accountID(1)); n != 59 {
			t.Errorf("%d events of the last 59 days left, want all", n)
		}
		if again := expire(t, conn); again != (migrations.Expired{}) {
			t.Errorf("a second run deleted %+v", again)
		}
		if !community {
			return
		}
		if diff := cmp.Diff(want, usage(t, conn)); diff != "" {
			t.Errorf("sums changed:\n%.2000s", diff)
		}
		insert(t, conn, event(time.Now().Add(-80*day)))
		refreshLate(t, conn)
		materialize(t, conn, migrations.Community)
		up(t, conn, migrations.Options{})
		if diff := cmp.Diff(want, usage(t, conn)); diff != "" {
			t.Errorf("policies, a late event and migrate changed sums:\n%.2000s", diff)
		}
	})
}

// What no aggregate holds yet is not deleted, however old it is.
func TestAccountRetentionWaitsForTheAggregates(t *testing.T) {
	t.Parallel()
	conn := still(t, schematest.DatabaseOf(t, migrations.Community))
	keepFor(t, conn, 60)
	insert(t, conn, fewDays(1, 100)...)
	exec(t, conn, `call refresh_continuous_aggregate('aggregates.usage_15m', null, now() - interval '80 days')`)
	want := usage(t, conn)
	if expire(t, conn); one[int](t, conn, countOlder, accountID(1), 60) < 39 {
		t.Error("events were deleted that a note of a late bucket waits for")
	}
	exec(t, conn, `delete from late_buckets`)
	expire(t, conn)
	if diff := cmp.Diff(want, usage(t, conn)); diff != "" {
		t.Errorf("sums changed:\n%.2000s", diff)
	}
	if n := one[int](t, conn, countOlder, accountID(1), 82); n != 0 {
		t.Errorf("%d events left that the aggregates hold", n)
	}
	if n := one[int](t, conn, countOlder, accountID(1), 60); n < 19 {
		t.Errorf("%d events left that no aggregate holds, want all", n)
	}
}

// A refresh that began before knows nothing of what is deleted: it is waited for.
func TestAccountRetentionWaitsForARefresh(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	conn, refresher, waiting := still(t, db), connect(t, db), connect(t, db)
	keepFor(t, conn, 60)
	insert(t, conn, fewDays(1, 100)...)
	if db.Edition == migrations.Community {
		exec(t, conn, `call refresh_continuous_aggregate('aggregates.usage_15m', null, now() - interval '75 minutes')`)
	}
	exec(t, conn, `delete from late_buckets`)
	exec(t, refresher, `select pg_advisory_lock($1)`, migrations.RefreshLock)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if done, err := migrations.ExpireAccounts(ctx, waiting, time.Now()); err == nil || done.Events != 0 {
		t.Errorf("during a refresh: %+v, %v, want it to wait", done, err)
	}
	waiting.Close(t.Context())
	exec(t, refresher, `select pg_advisory_unlock($1)`, migrations.RefreshLock)
	if done := expire(t, conn); done.Events == 0 {
		t.Error("nothing was deleted after the refresh")
	}
}

// A retention that a refresh would reach into is refused, and so is a refresh window that reaches into a retention, or into
// what one has deleted.
func TestRetentionAndRefreshKeepApart(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := still(t, db)
		up(t, conn, migrations.Options{RawRetention: 400 * day})
		keepFor(t, conn, 60)
		for _, days := range []int{1, 45, 401} {
			_, err := conn.Exec(t.Context(), `update account_retention set retention_days = $1`, days)
			var pgErr *pgconn.PgError
			if !errors.As(err, &pgErr) || pgErr.Code != "OL004" {
				t.Errorf("%d days: %v, want OL004", days, err)
			}
		}
		exec(t, conn, `update account_retention set retention_days = 46`)
		exec(t, conn, `update account_retention set retention_days = 60`)
		window := func(days int) error {
			return migrations.Up(t.Context(), conn, migrations.Options{RefreshWindow: time.Duration(days) * day, RawRetention: 400 * day, Log: quiet})
		}
		if err := window(60); !errors.Is(err, migrations.ErrHorizons) {
			t.Errorf("a window of 60 days: %v, want ErrHorizons", err)
		}
		if err := window(59); err != nil {
			t.Errorf("a window of 59 days: %v", err)
		}
		exec(t, conn, `update account_retention set retention_days = null, deleted_before = now() - interval '70 days'`)
		if err := window(71); !errors.Is(err, migrations.ErrHorizons) {
			t.Errorf("a window over what was deleted: %v, want ErrHorizons", err)
		}
		if err := window(69); err != nil {
			t.Errorf("a window of 69 days: %v", err)
		}
	})
}

// Sessions of which no event is left go with their events, and with them their links and dead letters of the same age. What
// still gets events stays. So it is where the installation drops events.
func TestNothingOutlivesItsEvents(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := still(t, db)
		keepFor(t, conn, 60)
		const makeSession = `
			insert into sessions (account_id, session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at)
			values ($1, $2, '{}', '{}', 1, 0, 0, 0, 0, now() - make_interval(days => $3), now() - make_interval(days => $4))`
		for _, account := range []int{1, 2} {
			for _, s := range []struct {
				id         string
				start, end int
			}{{"ses_old", 90, 80}, {"ses_long", 90, 50}, {"ses_new", 10, 9}, {"ses_again", 90, 80}} {
				exec(t, conn, makeSession, accountID(account), s.id, s.start, s.end)
				exec(t, conn, `insert into session_shares (share_id, account_id, session_id, token_sha256, include_metadata, created_at)
					values (gen_random_uuid(), $1, $2, sha256(convert_to(gen_random_uuid()::text, 'UTF8')), false, now())`, accountID(account), s.id)
			}
			exec(t, conn, `insert into session_parts select * from (select account_id, session_id, agents, users, events, errors, input_tokens,
				output_tokens, cost_nano_usd, now(), now() from sessions where account_id = $1 and session_id = 'ses_again') s`, accountID(account))
			exec(t, conn, `insert into dead_letters (topic, partition, "offset", reason, account_id, received_at)
				select 't', $1, d, 'r', $2, now() - make_interval(days => d) from unnest(array[59, 62]) d`, account, accountID(account))
			exec(t, conn, `insert into event_revisions (account_id, event_id, ts, job_id, cost_nano_usd, cost_source)
				select $1, gen_random_uuid(), now() - make_interval(days => d), gen_random_uuid(), d, 'calculated' from unnest(array[59, 62]) d`, accountID(account))
		}
		if db.Edition == migrations.Community {
			exec(t, conn, `call refresh_continuous_aggregate('aggregates.usage_15m', null, now() - interval '2 hours')`)
			insert(t, conn, event(time.Now().Add(-3*time.Hour)))
			exec(t, conn, `call refresh_continuous_aggregate('aggregates.usage_15m', null, now() - interval '75 minutes')`)
			exec(t, conn, `delete from late_buckets`)
		}
		check := func(what string, account int, want []string) {
			t.Helper()
			got := column[string](t, conn, `
				select session_id from sessions where account_id = $1
				union all select 'link of ' || session_id from session_shares where account_id = $1
				union all select 'letter ' || "offset" from dead_letters where account_id = $1
				union all select 'revision ' || cost_nano_usd from event_revisions where account_id = $1
				order by 1`, accountID(account))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: account %d (-want +got):\n%s", what, account, diff)
			}
		}
		left := []string{
			"letter 59", "link of ses_again", "link of ses_long", "link of ses_new", "revision 59", "ses_again", "ses_long", "ses_new",
		}
		all := []string{
			"letter 59", "letter 62", "link of ses_again", "link of ses_long", "link of ses_new", "link of ses_old", "revision 59", "revision 62",
			"ses_again", "ses_long", "ses_new", "ses_old",
		}
		expire(t, conn)
		check("retention of one account", 1, left)
		check("retention of one account", 2, all)
		up(t, conn, migrations.Options{RawRetention: 61 * day})
		expire(t, conn)
		check("retention of the installation", 2, left)
	})
}
