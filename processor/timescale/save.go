package timescale

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// Sink stores batches. It is used by one goroutine at a time, as it keeps its
// buffers between batches.
type Sink struct {
	// pool gives one connection at a time.
	pool  *pgxpool.Pool
	topic string
	// statement is saveBatch with its placeholders expanded.
	statement string
	// groups are the parameters of the statement after the topic, in their order: all of the groups below.
	groups []parameters

	spans    *group[Span]
	keys     *group[eventKey]
	events   *group[Item]
	dead     *group[Item]
	spend    *group[spendRow]
	leases   *group[leaseRow]
	sessions *group[sessionRow]
	arrivals *group[sumRow]
	usage    *group[sumRow]
	intake   *group[intakeRow]
	refused  *group[refusedRow]

	// taken, released and sums are what is added up of a batch before it is encoded.
	taken    intake
	released released
	sums     sums
}

// New returns a Sink for the records of one topic. The caller owns the pool.
func New(pool *pgxpool.Pool, topic string) *Sink {
	s := &Sink{
		pool: pool, topic: topic,
		spans: newSpans(), keys: newKeys(), events: newEvents(), dead: newDead(), spend: newSpend(), leases: newLeases(),
		sessions: newSessionDeltas(), arrivals: newArrivals(), usage: newUsage(), intake: newIntake(), refused: newRefused(),
		taken: intake{sums: tally[intakeKey, intakeSum]{}},
		released: released{
			barriers: map[schema.ID]map[string]int64{}, sums: tally[refusedKey, refusedSum]{}, present: newPresent(),
		},
	}
	s.groups = []parameters{
		s.spans, s.keys, s.events, s.dead, s.spend, s.leases, s.sessions, s.arrivals, s.usage, s.intake, s.refused, s.released.present,
	}
	s.statement = expand(saveBatch, s.groups)
	return s
}

// maxKeyRaces bounds how often Save starts again because another processor
// stored one of the batch's keys a moment before.
const maxKeyRaces = 5

// Save stores a batch or nothing of it: the events that are not Dead, whose
// key is new and whose lease was not given up before they were written, their spend, the dead letters, and for each span the new position
// of its partition, provided that the partition stands where the span starts.
// Items are sorted by partition and offset and match the spans.
//
// ErrFenced means that some partition stands elsewhere. After any error but
// ErrFenced the batch may or may not be stored: ask Positions.
func (s *Sink) Save(ctx context.Context, spans []Span, items []Item) (Result, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("connect to save: %w", err)
	}
	defer conn.Release()
	for range maxKeyRaces {
		var result Result
		result, err = s.try(ctx, conn.Conn(), spans, items)
		if pgdb.SQLState(err) != stateKeyRace {
			return result, saveError(err, len(items))
		}
	}
	return Result{}, saveError(err, len(items))
}

// Probe does what Save does and takes it back: it returns what Save would.
func (s *Sink) Probe(ctx context.Context, spans []Span, items []Item) (Result, error) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("connect to probe: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	result, err := s.try(ctx, tx.Conn(), spans, items)
	return result, saveError(err, len(items))
}

// saveError turns the SQLSTATE of a fenced batch into ErrFenced and adds the number of records to other errors.
func saveError(err error, n int) error {
	switch {
	case err == nil:
		return nil
	case pgdb.SQLState(err) == stateFenced:
		return ErrFenced
	}
	return fmt.Errorf("save %d records: %w", n, err)
}

// try stores the batch once. What it looks up before, the statement checks again: keys by require_count, leases by require_leases.
func (s *Sink) try(ctx context.Context, conn *pgx.Conn, spans []Span, items []Item) (Result, error) {
	// Look-ups come before anything is encoded: most batches need neither.
	known, err := s.knownKeys(ctx, conn, items)
	if err != nil {
		return Result{}, err
	}
	for _, g := range s.groups {
		g.reset()
	}
	if err := s.released.load(ctx, conn, items); err != nil {
		return Result{}, err
	}
	result := s.fill(spans, items, known)
	// pgx does this once for each connection, and nothing afterwards.
	if _, err := conn.Prepare(ctx, "save_batch", s.statement); err != nil {
		return Result{}, fmt.Errorf("prepare: %w", err)
	}
	params := s.params()
	conn.PgConn().Frontend().Send(bufferFor(params))
	read := conn.PgConn().ExecPrepared(ctx, "save_batch", params, binaryFormat, nil).Read()
	return result, read.Err
}

// binaryFormat is the format code of every parameter.
var binaryFormat = []int16{pgtype.BinaryFormatCode}

// eventKey is an idempotency key as it is kept: the event id derived from it.
type eventKey struct{ AccountID, EventID schema.ID }

// A look-up beforehand is cheaper than a conflict in the statement, which starts the batch again.
const selectKnownKeys = `
SELECT k.account_id, k.event_id
FROM event_keys k JOIN unnest($1::uuid[], $2::uuid[]) AS q(account_id, event_id)
  ON k.account_id = q.account_id AND k.event_id = q.event_id`

// knownKeys returns which keys of the items are stored already.
func (s *Sink) knownKeys(ctx context.Context, conn *pgx.Conn, items []Item) (map[eventKey]bool, error) {
	var accounts, ids []schema.ID
	for i := range items {
		if e := &items[i].Event; e.IdempotencyKey != "" && items[i].Dead == nil {
			accounts, ids = append(accounts, e.AccountID), append(ids, e.ID)
		}
	}
	known := make(map[eventKey]bool, len(ids))
	if len(ids) == 0 {
		return known, nil
	}
	found, err := pgdb.Rows[eventKey](ctx, conn, "look keys up", selectKnownKeys, accounts, ids)
	for _, k := range found {
		known[k] = true
	}
	return known, err
}

// fill encodes the batch. Keys that are known, and the second of two equal keys
// in the batch, are duplicates: they are counted and not stored.
func (s *Sink) fill(spans []Span, items []Item, known map[eventKey]bool) Result {
	for i := range spans {
		s.spans.add(&spans[i])
	}
	s.taken.reset()
	s.sums.reset()
	var result Result
	spend := tally[spendKey, spendSum]{}
	leases := tally[schema.ID, leaseSum]{}
	sessions := tally[sessionKey, sessionDelta]{}
	for i := range items {
		item := &items[i]
		e := &item.Event
		taken := s.taken.accept(item)
		// Whatever becomes of an event, it is not on its way any more.
		for _, lease := range e.Leases {
			leases.at(lease).used.Add(int64(e.Cost))
		}
		key := eventKey{e.AccountID, e.ID}
		keyed := e.IdempotencyKey != ""
		switch {
		case item.Dead != nil:
			s.dead.add(item)
			result.Dead++
			taken.dead++
			continue
		case keyed && known[key]:
			result.Duplicates++
			taken.duplicates++
			continue
		case s.released.refuses(item):
			s.released.add(e)
			result.RefusedLate++
			taken.refused++
			continue
		}
		if keyed {
			known[key] = true
			s.keys.add(&key)
		}
		s.events.add(item)
		s.sums.add(e)
		taken.storing(e.Time)
		result.Stored++
		for _, lease := range e.Leases {
			leases.at(lease).stored.Add(int64(e.Cost))
		}
		// A session made for a single event is in no list; should the client go on with it, the database finds its start.
		if !e.SessionImplicit {
			sessions.at(sessionKey{e.AccountID, e.SessionID}).add(e)
		}
	}
	s.sums.addSpend(spend)
	spend.encode(s.spend, spendKey.compare)
	leases.encode(s.leases, compareIDs)
	sessions.encode(s.sessions, sessionKey.compare)
	s.taken.sums.encode(s.intake, intakeKey.compare)
	s.released.sums.encode(s.refused, refusedKey.compare)
	s.sums.encode(s.arrivals, minuteOfArrival)
	s.sums.encode(s.usage, quarterOfEvent)
	return result
}

// params returns the values of the statement's parameters in their order.
func (s *Sink) params() [][]byte {
	// The topic is text in the binary format, which is its bytes.
	params := [][]byte{[]byte(s.topic)}
	for _, g := range s.groups {
		params = g.appendTo(params)
	}
	return params
}
