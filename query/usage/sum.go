package usage

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outlayhq/outlay/schema"
)

// Sum is a whole number of any size: the numeric that PostgreSQL makes of a sum
// of bigints. In JSON and CSV it is written with all its digits.
type Sum struct {
	// small is the number, unless large is.
	small int64
	// large is a number that small cannot hold. It is shared by copies and not changed.
	large *big.Int
}

// sumOf returns n, which it takes.
func sumOf(n *big.Int) Sum {
	if n.IsInt64() {
		return Sum{small: n.Int64()}
	}
	return Sum{large: n}
}

// ScanNumeric reads a numeric column. NULL is 0.
func (s *Sum) ScanNumeric(v pgtype.Numeric) error {
	*s = Sum{}
	if !v.Valid {
		return nil
	}
	if v.NaN || v.InfinityModifier != pgtype.Finite || v.Int == nil {
		return fmt.Errorf("numeric is not a finite number")
	}
	n := new(big.Int).Set(v.Int)
	// Exp is negative for a numeric with decimals, which a sum of integers has
	// only as zeros.
	shift := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(v.Exp, -v.Exp))), nil)
	if v.Exp >= 0 {
		*s = sumOf(n.Mul(n, shift))
		return nil
	}
	var rest big.Int
	n.QuoRem(n, shift, &rest)
	if rest.Sign() != 0 {
		return fmt.Errorf("numeric is not a whole number")
	}
	*s = sumOf(n)
	return nil
}

// NewSum returns n as a Sum.
func NewSum(n int64) Sum { return Sum{small: n} }

// Add adds other to s.
func (s *Sum) Add(other *Sum) {
	if s.large == nil && other.large == nil {
		sum := s.small + other.small
		// It is too large when both have the sign that it has not.
		if (s.small^sum)&(other.small^sum) >= 0 {
			s.small = sum
			return
		}
	}
	n := s.Int()
	*s = sumOf(n.Add(n, other.Int()))
}

// String returns the number in decimal digits.
func (s *Sum) String() string { return string(s.AppendText(nil)) }

// AppendText appends what String returns to dst.
func (s *Sum) AppendText(dst []byte) []byte {
	if s.large == nil {
		return strconv.AppendInt(dst, s.small, 10)
	}
	return s.large.Append(dst, 10)
}

// MarshalJSON writes the number with all its digits.
func (s Sum) MarshalJSON() ([]byte, error) { return s.AppendText(nil), nil }

// USD is a sum of money. It is kept in nano-dollars and written in dollars.
type USD struct{ Sum }

// NewUSD returns an amount of nano-dollars.
func NewUSD(nano int64) USD { return USD{NewSum(nano)} }

// USDOf returns a sum of nano-dollars.
func USDOf(nano schema.Sum) USD { return USD{sumOf(nano.Int())} }

// nanoDigits is how many decimals a nano-dollar has.
const nanoDigits = 9

// String returns the amount in dollars, exactly, without exponent and without
// zeros at the end: "0.0000075", "12".
func (u *USD) String() string { return string(u.AppendText(nil)) }

// AppendText appends what String returns to dst.
func (u *USD) AppendText(dst []byte) []byte {
	if u.large == nil {
		return schema.NanoUSD(u.small).AppendText(dst)
	}
	if u.Sign() < 0 {
		dst = append(dst, '-')
	}
	digits := new(big.Int).Abs(u.large).Append(nil, 10)
	for len(digits) <= nanoDigits {
		digits = append([]byte{'0'}, digits...)
	}
	whole, fraction := digits[:len(digits)-nanoDigits], digits[len(digits)-nanoDigits:]
	for len(fraction) > 0 && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	dst = append(dst, whole...)
	if len(fraction) == 0 {
		return dst
	}
	return append(append(dst, '.'), fraction...)
}

// MarshalJSON writes the amount as a JSON number of dollars.
func (u USD) MarshalJSON() ([]byte, error) { return u.AppendText(nil), nil }

// dividedBy returns s divided by n, rounded half up.
func (s *Sum) dividedBy(n int64) int64 {
	if s.large == nil && s.small >= 0 && s.small <= math.MaxInt64-n {
		return (s.small + n/2) / n
	}
	twice := s.Int()
	twice.Lsh(twice, 1)
	twice.Add(twice, big.NewInt(n))
	return twice.Div(twice, big.NewInt(2*n)).Int64()
}

// Cmp returns -1, 0 or 1 as s is less than, equal to or greater than other.
func (s *Sum) Cmp(other *Sum) int {
	if s.large == nil && other.large == nil {
		return cmp.Compare(s.small, other.small)
	}
	return s.Int().Cmp(other.Int())
}

// Sign returns -1, 0 or 1 as s is negative, zero or positive.
func (s *Sum) Sign() int {
	if s.large == nil {
		return cmp.Compare(s.small, 0)
	}
	return s.large.Sign()
}

// Int returns a copy of s.
func (s *Sum) Int() *big.Int {
	if s.large == nil {
		return big.NewInt(s.small)
	}
	return new(big.Int).Set(s.large)
}
