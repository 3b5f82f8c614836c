package timescale_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/wire"
)

const benchBatch = 10_000

// BenchmarkSave compares all that a batch does (events, positions, keys, spend,
// late buckets) with the yardstick: nothing but a binary COPY of the same rows,
// encoded by hand, into the same table with the same indexes and aggregates. They
// take turns, because the machine's speed changes with the hour.
func BenchmarkSave(b *testing.B) {
	db := schematest.Database(b)
	b.Logf("database: %s", db.Edition)
	for round := range 3 {
		b.Run(fmt.Sprintf("copy/round=%d", round), func(b *testing.B) { benchCopy(b, db.Pool) })
		b.Run(fmt.Sprintf("save/round=%d", round), func(b *testing.B) { benchSave(b, db.Pool, 0) })
		b.Run(fmt.Sprintf("save-keyed/round=%d", round), func(b *testing.B) { benchSave(b, db.Pool, 10) })
	}
}

func benchCopy(b *testing.B, pool *pgxpool.Pool) {
	reset(b, pool)
	r := rand.New(rand.NewPCG(1, 2))
	events := 0
	for b.Loop() {
		b.StopTimer()
		items := benchItems(r, int64(events), 0)
		b.StartTimer()
		bareCopy(b, pool, items)
		events += benchBatch
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// benchSave gives keyedPercent of the events an idempotency key.
func benchSave(b *testing.B, pool *pgxpool.Pool, keyedPercent int) {
	reset(b, pool)
	if _, err := timescale.NewPositions(pool, topic).Next(b.Context(), []int32{0}); err != nil {
		b.Fatal(err)
	}
	sink := timescale.New(pool, topic)
	r := rand.New(rand.NewPCG(1, 2))
	offset := int64(0)
	for b.Loop() {
		b.StopTimer()
		items := benchItems(r, offset, keyedPercent)
		b.StartTimer()
		if _, err := sink.Save(b.Context(), span(offset, benchBatch), items); err != nil {
			b.Fatal(err)
		}
		offset += benchBatch
	}
	b.ReportMetric(float64(offset)/b.Elapsed().Seconds(), "events/s")
}

func reset(b *testing.B, pool *pgxpool.Pool) {
	b.Helper()
	for _, sql := range []string{
		`INSERT INTO accounts (id, name) VALUES ('00000000-0000-0000-0000-00000000000f'::uuid, 'bench') ON CONFLICT DO NOTHING`,
		`TRUNCATE events, kafka_offsets, event_keys, spend, sessions, session_parts, intake, usage_15m`, `CHECKPOINT`,
	} {
		if _, err := pool.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
}

// The cost of every event, and the JSON of its breakdown for what is not measured.
var (
	benchQuote     = price.Quote{Rule: "equals gpt-4o", Parts: price.Parts{price.Input: {Tokens: 1200, RatePicoUSD: 2_500_000, CostNanoUSD: 3_000_000}}}
	benchBreakdown = price.AppendBreakdown(nil, &benchQuote)
)

// benchItems are the events of one batch: 200 agents, eight models, sessions of
// about ten steps, as a fleet sends them.
func benchItems(r *rand.Rand, first int64, keyedPercent int) []timescale.Item {
	items := make([]timescale.Item, benchBatch)
	now := time.Now().UTC().Truncate(time.Microsecond)
	owner := schema.ID{15: 15}
	for i := range items {
		e := schema.Event{
			ID: schema.NewID(now), AccountID: owner,
			Agent: fmt.Sprintf("agent-%03d", r.IntN(200)), Provider: "openai", Model: fmt.Sprintf("gpt-4o-%d", r.IntN(8)),
			SessionID: fmt.Sprintf("ses_%08x-conversation", r.IntN(1000)+int(first/10)), Time: now, ReceivedAt: now,
			InputTokens: int64(r.IntN(5000)), OutputTokens: int64(r.IntN(800)), LatencyMS: int64(r.IntN(4000)),
			Cost: schema.NanoUSD(r.IntN(10_000_000)), Source: schema.CostCalculated, PriceID: "openai/gpt-4o@2024-10-02",
			Breakdown: wire.AppendBreakdown(nil, &benchQuote),
			Status:    schema.StatusOK, Metadata: []byte(`{"env":"prod","team":"search","attempt":1}`),
		}
		if r.IntN(100) < keyedPercent {
			e.IdempotencyKey = fmt.Sprint("key-", first+int64(i))
			e.ID = schema.KeyedEventID(owner, e.IdempotencyKey)
		}
		items[i] = timescale.Item{Offset: first + int64(i), Event: e}
	}
	return items
}

// bareCopy is the yardstick.
func bareCopy(b *testing.B, pool *pgxpool.Pool, items []timescale.Item) {
	b.Helper()
	buf := []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for i := range items {
		buf = appendRow(buf, &items[i])
	}
	buf = append(buf, 0xff, 0xff)
	conn, err := pool.Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Conn().PgConn().CopyFrom(context.Background(), bytes.NewReader(buf), "COPY events FROM STDIN BINARY"); err != nil {
		b.Fatal(err)
	}
}

const postgresEpoch = 946_684_800_000_000

func appendRow(buf []byte, item *timescale.Item) []byte {
	e := &item.Event
	row := copyRow{binary.BigEndian.AppendUint16(buf, 30)}
	row.int8(e.Time.UnixMicro() - postgresEpoch)
	row.bytes(e.AccountID[:])
	row.bytes(e.ID[:])
	row.int8(e.ReceivedAt.UnixMicro() - postgresEpoch)
	for _, text := range []string{e.Agent, e.Provider, e.Model, e.SessionID} {
		row.bytes([]byte(text))
	}
	row.bytes([]byte{0})
	row.bytes([]byte(e.Status))
	row.null(4)
	row.int8(e.InputTokens)
	row.int8(e.OutputTokens)
	for range 4 {
		row.int8(0)
	}
	row.int8(e.LatencyMS)
	row.int8(int64(e.Cost))
	row.bytes([]byte(e.Source))
	row.bytes([]byte(e.PriceID))
	row.bytes(benchBreakdown)
	row.null(1)
	row.bytes(e.Metadata)
	row.null(1)
	row.bytes([]byte{0, 0, 0, byte(item.Partition)})
	row.int8(item.Offset)
	return row.buf
}

type copyRow struct{ buf []byte }

func (r *copyRow) bytes(v []byte) {
	r.buf = append(binary.BigEndian.AppendUint32(r.buf, uint32(len(v))), v...)
}

func (r *copyRow) int8(v int64) {
	r.buf = binary.BigEndian.AppendUint64(append(r.buf, 0, 0, 0, 8), uint64(v))
}

func (r *copyRow) null(n int) {
	for range n {
		r.buf = append(r.buf, 0xff, 0xff, 0xff, 0xff)
	}
}
