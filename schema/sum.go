package schema

import (
	"fmt"
	"math/big"
	"math/bits"
)

// Sum is what counts or nano-dollars of events add up to: a whole number below
// 2^128, which no number of events reaches, while an int64 of nano-dollars is full
// after nine thousand of the dearest. The zero Sum is 0; Sums compare with ==.
type Sum struct{ hi, lo uint64 }

// SumOf returns n, which must not be negative, as a Sum.
func SumOf[N ~int64](n N) (s Sum) {
	s.Add(int64(n))
	return s
}

// Add adds n, which must not be negative.
func (s *Sum) Add(n int64) { s.AddSum(Sum{lo: uint64(n)}) }

// AddSum adds another sum.
func (s *Sum) AddSum(other Sum) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, other.lo, 0)
	s.hi, _ = bits.Add64(s.hi, other.hi, carry)
}

// Words returns the upper and the lower 64 bits.
func (s Sum) Words() (hi, lo uint64) { return s.hi, s.lo }

// Int returns the sum as a number of any size.
func (s Sum) Int() *big.Int {
	n := new(big.Int).SetUint64(s.hi)
	return n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(s.lo))
}

// String returns the digits of the sum.
func (s Sum) String() string { return s.Int().String() }

// Scan reads what the database writes of a numeric without decimals.
func (s *Sum) Scan(src any) error {
	text, ok := src.(string)
	if !ok {
		return fmt.Errorf("a sum cannot be read from %T", src)
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || n.Sign() < 0 || n.BitLen() > 128 {
		return fmt.Errorf("%q is not a sum", text)
	}
	s.lo = new(big.Int).And(n, new(big.Int).SetUint64(^uint64(0))).Uint64()
	s.hi = n.Rsh(n, 64).Uint64()
	return nil
}
