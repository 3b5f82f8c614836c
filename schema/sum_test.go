package schema_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/outlayhq/outlay/schema"
)

// A sum is exact far beyond 64 bits, however it was put together, and reads what
// it wrote.
func TestSumIsExact(t *testing.T) {
	t.Parallel()
	var s, half schema.Sum
	want := new(big.Int)
	for range 100_000 {
		n := rand.Int64N(math.MaxInt64)
		s.Add(n)
		want.Add(want, big.NewInt(n))
	}
	half.AddSum(s)
	s.AddSum(half)
	want.Lsh(want, 1)
	if s.Int().Cmp(want) != 0 || s.String() != want.String() || want.BitLen() < 70 {
		t.Errorf("sum = %s, want %s", s, want)
	}
	for _, sum := range []schema.Sum{s, {}, schema.SumOf(int64(1)), schema.SumOf(schema.MaxEventCost)} {
		var read schema.Sum
		if err := read.Scan(sum.String()); err != nil || read != sum {
			t.Errorf("%s was read as %s (%v)", sum, read, err)
		}
	}
	for _, bad := range []any{"-1", "", "1.5", "NaN", "340282366920938463463374607431768211456", 1} {
		if err := new(schema.Sum).Scan(bad); err == nil {
			t.Errorf("%v was read as a sum", bad)
		}
	}
}
