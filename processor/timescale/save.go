package timescale

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

// Sink stores batches. It is used by one goroutine at a time, as it keeps its
// buffers between batches.
type Sink struct {
	pool  *pgxpool.Pool
	topic string

	events                       eventColumns
	parts                        parts
	spanPart, spanFirst, spanEnd column
	keyAccount, keyID            column
	spendAccount, spendAgent     column
	spendBucket                  column
	spendCost, spendEvents       column
	buckets                      column
	deadPart, deadOffset         column
	deadReason, deadState        column
	deadAccount, deadReceived    column
	leaseID                      column
	leaseUsed, leaseStored       column
	sums                         sums
	arrivals                     arrivalColumns
	intake                       intake
	live                         liveColumns
	released                     released
}

// New returns a Sink for the records of one topic. The caller owns the pool.
func New(pool *pgxpool.Pool, topic string) *Sink { return &Sink{pool: pool, topic: topic} }

// maxKeyRaces bounds how often Save starts again because another processor
// stored one of the batch's keys a moment before.
const maxKeyRaces = 5

// Save stores a batch or nothing of it: the events that are not Dead, whose
// key is new and whose lease was not given up before they were written, their spend, the dead letters, and for each span the new position
// of its partition, provided that the partition stands where the span starts.
// Items are sorted by partition and offset and match the spans.
//
// ErrFenced means that some partition stands elsewhere. After any error but
// ErrFenced the batch may or may not be stored: Positions says which.
func (s *Sink) Save(ctx context.Context, spans []Span, items []Item) (Result, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("connect to save: %w", err)
	}
	defer conn.Release()
	for range maxKeyRaces {
		var result Result
		result, err = s.try(ctx, conn.Conn(), spans, items)
		if !hasState(err, stateKeyRace) {
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

func saveError(err error, n int) error {
	switch {
	case err == nil:
		return nil
	case hasState(err, stateFenced):
		return ErrFenced
	}
	return fmt.Errorf("save %d records: %w", n, err)
}

func (s *Sink) try(ctx context.Context, conn *pgx.Conn, spans []Span, items []Item) (Result, error) {
	known, err := s.knownKeys(ctx, conn, items)
	if err != nil {
		return Result{}, err
	}
	if err := s.released.load(ctx, conn, items); err != nil {
		return Result{}, err
	}
	result := s.fill(spans, items, known)
	if _, err := conn.Prepare(ctx, "save_batch", saveBatch); err != nil {
		return Result{}, fmt.Errorf("prepare: %w", err)
	}
	params := s.params()
	conn.PgConn().Frontend().Send(room(params))
	read := conn.PgConn().ExecPrepared(ctx, "save_batch", params, binaryFormat, nil).Read()
	return result, read.Err
}

// binaryFormat is the format code of every parameter.
var binaryFormat = []int16{pgtype.BinaryFormatCode}

// eventKey is an idempotency key as it is kept: the event id derived from it.
type eventKey struct{ account, id schema.ID }

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
	if len(ids) == 0 {
		return nil, nil
	}
	rows, _ := conn.Query(ctx, selectKnownKeys, accounts, ids)
	known := make(map[eventKey]bool, len(ids))
	var k eventKey
	_, err := pgx.ForEachRow(rows, []any{&k.account, &k.id}, func() error {
		known[k] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look keys up: %w", err)
	}
	return known, nil
}

// fill encodes the batch. Keys that are known, and the second of two equal keys
// in the batch, are duplicates: they are counted and not stored.
func (s *Sink) fill(spans []Span, items []Item, known map[eventKey]bool) Result {
	s.reset()
	for _, span := range spans {
		s.spanPart.int4(span.Partition)
		s.spanFirst.int8(span.First)
		s.spanEnd.int8(span.Next)
	}
	var result Result
	spend := map[spendKey]spendSum{}
	buckets := map[int64]bool{}
	leases := map[schema.ID]leaseSum{}
	for i := range items {
		item := &items[i]
		taken := s.intake.accept(item)
		// Whatever becomes of an event, it is not on its way any more.
		for _, lease := range item.Event.Leases {
			sum := leases[lease]
			sum.used.Add(int64(item.Event.Cost))
			leases[lease] = sum
		}
		if item.Dead != nil {
			s.addDead(item)
			result.Dead++
			taken.dead++
			continue
		}
		e := &item.Event
		if e.IdempotencyKey != "" {
			k := eventKey{e.AccountID, e.ID}
			if known[k] {
				result.Duplicates++
				taken.duplicates++
				continue
			}
		}
		if s.released.refuses(item) {
			s.released.add(e)
			result.RefusedLate++
			taken.refused++
			continue
		}
		if e.IdempotencyKey != "" {
			k := eventKey{e.AccountID, e.ID}
			if known == nil {
				known = map[eventKey]bool{}
			}
			known[k] = true
			s.keyAccount.id(k.account)
			s.keyID.id(k.id)
		}
		s.events.add(item)
		s.parts.add(e)
		s.sums.add(e)
		taken.storing(e.Time)
		result.Stored++
		for _, lease := range e.Leases {
			sum := leases[lease]
			sum.stored.Add(int64(e.Cost))
			leases[lease] = sum
		}
		buckets[bucketOf(e.Time)] = true
		// The account's own sum stands under the empty name.
		for _, agent := range [...]string{e.Agent, ""} {
			k := spendKey{e.AccountID, agent, bucketOf(e.ReceivedAt)}
			sum := spend[k]
			sum.cost.Add(int64(e.Cost))
			sum.events++
			spend[k] = sum
		}
	}
	s.parts.finish()
	s.addSpend(spend)
	s.addLeases(leases)
	s.sums.each(byArrival, s.arrivals.add)
	s.sums.each(byQuarter, s.live.add)
	s.intake.encode()
	s.released.encode()
	for _, bucket := range slices.Sorted(maps.Keys(buckets)) {
		s.buckets.time(time.Unix(bucket, 0))
	}
	return result
}

// addSpend adds the sums in a fixed order, so that two batches never wait for
// each other's rows in a circle.
func (s *Sink) addSpend(spend map[spendKey]spendSum) {
	keys := make([]spendKey, 0, len(spend))
	for k := range spend {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b spendKey) int {
		return cmp.Or(
			slices.Compare(a.account[:], b.account[:]),
			cmp.Compare(a.agent, b.agent),
			cmp.Compare(a.bucket, b.bucket))
	})
	for _, k := range keys {
		s.spendAccount.id(k.account)
		s.spendAgent.text(k.agent)
		s.spendBucket.time(time.Unix(k.bucket, 0))
		s.spendCost.numeric(spend[k].cost)
		s.spendEvents.int8(spend[k].events)
	}
}

// addLeases adds the sums in a fixed order, as addSpend does.
func (s *Sink) addLeases(leases map[schema.ID]leaseSum) {
	ids := slices.SortedFunc(maps.Keys(leases), func(a, b schema.ID) int { return slices.Compare(a[:], b[:]) })
	for _, id := range ids {
		s.leaseID.id(id)
		s.leaseUsed.numeric(leases[id].used)
		s.leaseStored.numeric(leases[id].stored)
	}
}

func (s *Sink) addDead(item *Item) {
	s.deadPart.int4(item.Partition)
	s.deadOffset.int8(item.Offset)
	s.deadReason.text(string(item.Dead.Reason))
	s.deadState.optionalText(item.Dead.SQLState)
	s.deadAccount.optionalID(item.Event.AccountID)
	if item.Event.ReceivedAt.IsZero() {
		s.deadReceived.null()
		return
	}
	s.deadReceived.time(item.Event.ReceivedAt)
}

func (s *Sink) reset() {
	s.events.reset()
	s.parts.reset()
	s.sums.reset()
	s.arrivals.reset()
	s.live.reset()
	s.intake.reset()
	s.released.reset()
	for c, elementType := range s.columns() {
		c.reset(elementType)
	}
}

// params returns the parameters of saveBatch in their order.
func (s *Sink) params() [][]byte {
	params := make([][]byte, 0, 82+len(s.events))
	params = append(params, []byte(s.topic))
	for c := range s.columns() {
		params = append(params, c.bytes())
	}
	for i := range s.events {
		params = append(params, s.events[i].bytes())
	}
	for c := range s.parts.columns() {
		params = append(params, c.bytes())
	}
	for c := range s.arrivals.columns() {
		params = append(params, c.bytes())
	}
	for c := range s.intake.columns() {
		params = append(params, c.bytes())
	}
	for c := range s.live.columns() {
		params = append(params, c.bytes())
	}
	params = append(params, s.released.present.bytes(), s.intake.refused.bytes())
	for c := range s.released.columns() {
		params = append(params, c.bytes())
	}
	return params
}

// columns are the parameters 2 to 21 of saveBatch with their element types.
func (s *Sink) columns() func(yield func(*column, uint32) bool) {
	return func(yield func(*column, uint32) bool) {
		_ = yield(&s.spanPart, pgtype.Int4OID) &&
			yield(&s.spanFirst, pgtype.Int8OID) &&
			yield(&s.spanEnd, pgtype.Int8OID) &&
			yield(&s.keyAccount, pgtype.UUIDOID) &&
			yield(&s.keyID, pgtype.UUIDOID) &&
			yield(&s.spendAccount, pgtype.UUIDOID) &&
			yield(&s.spendAgent, pgtype.TextOID) &&
			yield(&s.spendBucket, pgtype.TimestamptzOID) &&
			yield(&s.spendCost, pgtype.NumericOID) &&
			yield(&s.spendEvents, pgtype.Int8OID) &&
			yield(&s.buckets, pgtype.TimestamptzOID) &&
			yield(&s.deadPart, pgtype.Int4OID) &&
			yield(&s.deadOffset, pgtype.Int8OID) &&
			yield(&s.deadReason, pgtype.TextOID) &&
			yield(&s.deadState, pgtype.TextOID) &&
			yield(&s.deadAccount, pgtype.UUIDOID) &&
			yield(&s.deadReceived, pgtype.TimestamptzOID) &&
			yield(&s.leaseID, pgtype.UUIDOID) &&
			yield(&s.leaseUsed, pgtype.NumericOID) &&
			yield(&s.leaseStored, pgtype.NumericOID)
	}
}
