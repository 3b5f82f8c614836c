package migrations

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/advisory"
)

// notesAtOnce bounds the work of one RefreshLate.
const notesAtOnce = 200

// RefreshLate brings the usage relations up to date where events arrived late, and deletes the notes of late_buckets that
// this settles; it returns their number. It is meant to be called every few seconds, by any number of processors: one of
// them works, the others return at once. A note stays when its bucket was noted again meanwhile, and when a policy is
// refreshing or about to, for the next call to see to.
//
// Buckets whose raw events may be gone are never refreshed, because that would erase their sums: their notes are dropped. Others
// are, however old: what is older than the refresh window is noted where events were repriced.
// Where the usage relations are plain views there is nothing to refresh, and all notes are dropped.
//
// now is the caller's clock; what is too old to be refreshed is so by it or by the database's own.
func RefreshLate(ctx context.Context, conn *pgx.Conn, now time.Time) (int, error) {
	edition, err := editionKept(ctx, conn)
	if err != nil {
		return 0, err
	}
	if edition != Community {
		return dropNotes(ctx, conn)
	}
	notes, err := readNotes(ctx, conn)
	if err != nil || len(notes) == 0 {
		return 0, err
	}
	locked, err := tryLock(ctx, conn, advisory.RefreshRollups)
	if err != nil || !locked {
		return 0, err
	}
	defer freeLock(ctx, conn, advisory.RefreshRollups)
	settled := 0
	err = unhurried(ctx, conn, func() error {
		settled, err = refreshNotes(ctx, conn, notes, now)
		return err
	})
	return settled, err
}

// refreshNotes goes day by day, so that what is done is settled when a policy gets in the way.
func refreshNotes(ctx context.Context, conn *pgx.Conn, notes []note, now time.Time) (settled int, err error) {
	h, err := readHorizon(ctx, conn, now)
	if err != nil {
		return 0, err
	}
	for oneDay := range byDay(notes) {
		due, err := policyDue(ctx, conn)
		if err != nil || due {
			return settled, err
		}
		err = refreshDay(ctx, conn, oneDay, h)
		if hasCode(err, lockNotAvailable) { // A policy has the range in hand.
			return settled, nil
		}
		if err != nil {
			return settled, fmt.Errorf("refresh %d late buckets: %w", len(oneDay), err)
		}
		n, err := settle(ctx, conn, oneDay)
		settled += n
		if err != nil {
			return settled, err
		}
	}
	return settled, nil
}

// Those that a batch is noting at this moment stay for the next time.
const deleteNotes = `
delete from late_buckets
where bucket in (select bucket from late_buckets for update skip locked)`

func dropNotes(ctx context.Context, conn *pgx.Conn) (int, error) {
	tag, err := conn.Exec(ctx, deleteNotes)
	if err != nil {
		return 0, fmt.Errorf("drop the notes of late buckets: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// note is a late bucket. Its version changes whenever it is noted again.
type note struct {
	Bucket  time.Time
	Version string
}

const selectNotes = `select bucket, xmin::text as version from late_buckets order by bucket limit $1`

func readNotes(ctx context.Context, conn *pgx.Conn) ([]note, error) {
	rows, _ := conn.Query(ctx, selectNotes, notesAtOnce)
	notes, err := pgx.CollectRows(rows, pgx.RowToStructByName[note])
	if err != nil {
		return nil, fmt.Errorf("read the notes of late buckets: %w", err)
	}
	return notes, nil
}

// A job whose time is long past does not run any more, and one that is not scheduled does not run by itself; nothing waits for them.
const selectPolicyDue = `
select exists (
    select from timescaledb_information.jobs
    where proc_name = 'policy_refresh_continuous_aggregate' and hypertable_schema = '` + aggregates + `' and scheduled
      and next_start between now() - interval '10 seconds' and now() + interval '2 seconds')`

// policyDue reports whether a policy is about to refresh. It would fail if it met a refresh of ours.
func policyDue(ctx context.Context, conn *pgx.Conn) (due bool, err error) {
	if err := conn.QueryRow(ctx, selectPolicyDue).Scan(&due); err != nil {
		return false, fmt.Errorf("look for policies that are due: %w", err)
	}
	return due, nil
}

// byDay yields the notes, which are in the order of time, by days of UTC.
func byDay(notes []note) iter.Seq[[]note] {
	return func(yield func([]note) bool) {
		for len(notes) > 0 {
			today := notes[0].Bucket.Truncate(day)
			n := slices.IndexFunc(notes, func(n note) bool { return !n.Bucket.Truncate(day).Equal(today) })
			if n < 0 {
				n = len(notes)
			}
			if !yield(notes[:n]) {
				return
			}
			notes = notes[n:]
		}
	}
}

// refreshDay refreshes the noted buckets of a day.
func refreshDay(ctx context.Context, conn *pgx.Conn, notes []note, h horizon) error {
	var buckets []time.Time
	for _, n := range notes {
		if !n.Bucket.Before(h.raw) {
			buckets = append(buckets, n.Bucket)
		}
	}
	return refreshAll(ctx, conn, h, func(l level, _ time.Time) []span { return spansOf(buckets, l.width) })
}

// The version is compared again under the row's lock: a processor that notes the bucket at this moment keeps its note.
const deleteSettled = `
delete from late_buckets
where bucket in (
    select l.bucket
    from late_buckets l
    join unnest($1::timestamptz[], $2::text[]) as settled (bucket, version)
        on l.bucket = settled.bucket and l.xmin::text = settled.version
    for update of l skip locked)`

func settle(ctx context.Context, conn *pgx.Conn, notes []note) (int, error) {
	buckets, versions := make([]time.Time, len(notes)), make([]string, len(notes))
	for i, n := range notes {
		buckets[i], versions[i] = n.Bucket, n.Version
	}
	tag, err := conn.Exec(ctx, deleteSettled, buckets, versions)
	if err != nil {
		return 0, fmt.Errorf("delete %d notes of late buckets: %w", len(notes), err)
	}
	return int(tag.RowsAffected()), nil
}
