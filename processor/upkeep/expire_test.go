package upkeep

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

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

func expire(t *testing.T, conn *pgx.Conn) Expired {
	t.Helper()
	done, err := ExpireAccounts(t.Context(), conn, time.Now())
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

// The events of one account go and those of others stay, from the columnstore too. The sums of all stay.
func TestAccountRetentionDeletesEventsAndKeepsTheSums(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		keepFor(t, conn, 60)
		insert(t, db, fewDays(1, 100)...)
		insert(t, db, fewDays(2, 100)...)
		if db.Edition == migrations.Community {
			exec(t, conn, `select compress_chunk(c) from show_chunks('events', older_than => interval '20 days') c`)
		}
		want := usage(t, conn)
		done := expire(t, conn)
		if done["events"] < 38 || done["events"] > 40 {
			t.Errorf("%d events deleted, want those of 39 days", done["events"])
		}
		for account, most := range map[int]int{1: 1, 2: 40} { // The day that is not over 60 days ago is kept whole.
			if n := one[int](t, conn, countOlder, accountID(account), 60); n > most || account == 2 && n != most {
				t.Errorf("account %d has %d events of before its retention, want %d", account, n, most)
			}
		}
		if n := one[int](t, conn, `select count(*) from events where account_id = $1 and ts > now() - interval '59 days'`, accountID(1)); n != 59 {
			t.Errorf("%d events of the last 59 days left, want all", n)
		}
		if again := expire(t, conn); cmp.Diff(Expired{"sessions": 0, "share_links": 0, "dead_letters": 0, "revisions": 0}, again) != "" {
			t.Errorf("a second run deleted %+v", again)
		}
		if diff := cmp.Diff(want, usage(t, conn)); diff != "" {
			t.Errorf("sums changed:\n%.2000s", diff)
		}
		refresh(t, conn)
		if diff := cmp.Diff(want, usage(t, conn)); diff != "" {
			t.Errorf("a refresh changed sums:\n%.2000s", diff)
		}
	})
}

// Sessions of which no event is left go with their events, and with them their links and dead letters of the same age. What
// still gets events stays. So it is where the installation drops events.
func TestNothingOutlivesItsEvents(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
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
