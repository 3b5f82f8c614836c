package timescale

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

const benchBatch = 10_000

// benchItems are the events of one batch: 200 agents, eight models, sessions of
// about ten steps, as a fleet sends them.
func benchItems(r *rand.Rand, account schema.ID, partition int32, first int64) []Item {
	items := make([]Item, benchBatch)
	now := time.Now().UTC().Truncate(time.Microsecond)
	for i := range items {
		items[i] = Item{Partition: partition, Offset: first + int64(i), Event: schema.Event{
			ID: schema.NewID(now), AccountID: account,
			Agent: fmt.Sprintf("agent-%03d", r.IntN(200)), Provider: "openai", Model: fmt.Sprintf("gpt-4o-%d", r.IntN(8)),
			SessionID: fmt.Sprintf("ses_%08x-conversation", r.IntN(1000)+int(first/10)),
			Time:      now, ReceivedAt: now,
			InputTokens: int64(r.IntN(5000)), OutputTokens: int64(r.IntN(800)), LatencyMS: int64(r.IntN(4000)),
			Cost: schema.NanoUSD(r.IntN(10_000_000)), Source: schema.CostCalculated, PriceID: "openai/gpt-4o@2024-10-02",
			Breakdown: []byte(`[{"kind":"input","tokens":1200,"rate_usd_per_mtok":2.5,"cost_usd":0.003,"tier":"base","rule":"equals gpt-4o"}]`),
			Status:    schema.StatusOK, Metadata: []byte(`{"env":"prod","team":"search","attempt":1}`),
		}}
	}
	return items
}

func BenchmarkSink(b *testing.B) {
	url := os.Getenv("OUTLAY_BENCH_URL")
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	account := schema.NewID(time.Now())
	for _, name := range []string{"copy", "save", "copy", "save"} {
		b.Run(name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			if _, err := pool.Exec(ctx, "TRUNCATE events, kafka_offsets, spend"); err != nil {
				b.Fatal(err)
			}
			positions := NewPositions(pool, "bench")
			if _, err := positions.Next(ctx, []int32{0}); err != nil {
				b.Fatal(err)
			}
			sink := New(pool, "bench")
			offset := int64(0)
			b.ResetTimer()
			for b.Loop() {
				b.StopTimer()
				items := benchItems(r, account, 0, offset)
				b.StartTimer()
				if name == "copy" {
					bareCopy(b, pool, items)
				} else if _, err := sink.Save(ctx, []Span{{0, offset, offset + benchBatch}}, items); err != nil {
					b.Fatal(err)
				}
				offset += benchBatch
			}
			b.ReportMetric(float64(offset)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// bareCopy is the yardstick: the same rows, encoded by hand, in one COPY.
func bareCopy(b *testing.B, pool *pgxpool.Pool, items []Item) {
	buf := []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for i := range items {
		buf = appendRow(buf, &items[i])
	}
	buf = append(buf, 0xff, 0xff)
	conn, err := pool.Acquire(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Conn().PgConn().CopyFrom(context.Background(), bytes.NewReader(buf), "COPY events FROM STDIN BINARY"); err != nil {
		b.Fatal(err)
	}
}

func appendRow(buf []byte, item *Item) []byte {
	e := &item.Event
	row := copyRow{binary.BigEndian.AppendUint16(buf, 30)}
	row.int8(e.Time.UnixMicro() - postgresEpoch)
	row.bytes(e.AccountID[:])
	row.bytes(e.ID[:])
	row.int8(e.ReceivedAt.UnixMicro() - postgresEpoch)
	row.text(e.Agent)
	row.text(e.Provider)
	row.text(e.Model)
	row.text(e.SessionID)
	row.bytes([]byte{0})
	row.text(string(e.Status))
	row.null(4)
	row.int8(e.InputTokens)
	row.int8(e.OutputTokens)
	for range 4 {
		row.int8(0)
	}
	row.int8(e.LatencyMS)
	row.int8(int64(e.Cost))
	row.text(string(e.Source))
	row.text(e.PriceID)
	row.bytes(e.Breakdown)
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

func (r *copyRow) text(v string) {
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
