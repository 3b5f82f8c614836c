package timescale

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outlayhq/outlay/schema"
)

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
		var c column
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
