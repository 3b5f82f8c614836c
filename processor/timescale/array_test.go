package timescale

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/wire"
)

// A breakdown is stored as JSON; what is none leaves nothing behind in the column.
func TestBreakdownColumnIsReadBack(t *testing.T) {
	t.Parallel()
	packed := wire.AppendBreakdown(nil, &price.Quote{Rule: "equals m", Parts: price.Parts{price.Output: {Tokens: 2, RatePicoUSD: 1_000_000, CostNanoUSD: 2000}}})
	const written = `[{"kind":"output","tokens":2,"rate_usd_per_mtok":1,"cost_usd":0.000002,"tier":"base","rule":"equals m"}]`
	var c array
	c.reset(pgtype.TextOID)
	for _, b := range [][]byte{packed, nil, {0xff}, packed[:len(packed)-1], {0x0a, 4, 0x08, byte(price.Kinds) + 1, 0x10, 1}, []byte(`[ {"kind":"input"}]`), packed} {
		c.breakdown(b)
	}
	var got []pgtype.Text
	if err := pgtype.NewMap().Scan(pgtype.TextArrayOID, pgtype.BinaryFormatCode, c.bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := []pgtype.Text{{String: written, Valid: true}, {}, {}, {}, {}, {String: `[ {"kind":"input"}]`, Valid: true}, {String: written, Valid: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

// A numeric is read back as the number it was made of, whatever its digits.
func TestNumericColumnIsReadBack(t *testing.T) {
	t.Parallel()
	numbers := []int64{0, 1, 9_999, 10_000, 10_001, 100_000_000, 99_999_999, 1_000_000_010_000, math.MaxInt64}
	for range 1000 {
		numbers = append(numbers, rand.Int64()>>rand.IntN(63))
	}
	types := pgtype.NewMap()
	for _, n := range numbers {
		var sum schema.Sum
		for range rand.IntN(3) + 1 {
			sum.Add(n)
			sum.AddSum(sum)
		}
		var c array
		c.reset(pgtype.NumericOID)
		c.numeric(sum)
		var got []pgtype.Numeric
		if err := types.Scan(pgtype.NumericArrayOID, pgtype.BinaryFormatCode, c.bytes(), &got); err != nil || len(got) != 1 {
			t.Fatalf("%s: %v", sum, err)
		}
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(got[0].Exp)), nil)
		if read := scale.Mul(scale, got[0].Int); read.Cmp(sum.Int()) != 0 {
			t.Errorf("%s was read back as %s", sum, read)
		}
	}
}
