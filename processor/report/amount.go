package report

import (
	"errors"
	"math/big"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"
)

// amount is a whole number of any size, as sums of bigint columns are: of tokens, or of nano-dollars.
type amount struct{ n big.Int }

// ScanNumeric reads a numeric column. NULL is 0.
func (a *amount) ScanNumeric(v pgtype.Numeric) error {
	a.n.SetInt64(0)
	if !v.Valid {
		return nil
	}
	if v.NaN || v.InfinityModifier != pgtype.Finite || v.Int == nil {
		return errors.New("a sum is not a number")
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(v.Exp, -v.Exp))), nil)
	if v.Exp >= 0 {
		a.n.Mul(v.Int, scale)
		return nil
	}
	var rest big.Int
	if a.n.QuoRem(v.Int, scale, &rest); rest.Sign() != 0 {
		return errors.New("a sum is not a whole number")
	}
	return nil
}

func (a *amount) add(b *amount) { a.n.Add(&a.n, &b.n) }

func (a *amount) cmp(b *amount) int { return a.n.Cmp(&b.n) }

func (a *amount) isZero() bool { return a.n.Sign() == 0 }

// share returns a as a part of b, 0 where b is nothing. It is for lengths of bars and for per cents, not for money.
func (a *amount) share(b *amount) float64 {
	if b.isZero() {
		return 0
	}
	part, _ := new(big.Rat).SetFrac(&a.n, &b.n).Float64()
	return part
}

// grouped writes a whole number with commas between thousands.
func grouped(n *big.Int) string {
	digits := new(big.Int).Abs(n).Append(nil, 10)
	text := make([]byte, 0, len(digits)*4/3+2)
	if n.Sign() < 0 {
		text = append(text, '-')
	}
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			text = append(text, ',')
		}
		text = append(text, d)
	}
	return string(text)
}

// String writes the number with commas between thousands.
func (a *amount) String() string { return grouped(&a.n) }

func count(n int64) string { return grouped(big.NewInt(n)) }

// nanoPerCent is how many nano-dollars a cent has.
var nanoPerCent = big.NewInt(10_000_000)

// cents rounds nano-dollars to cents, half of one away from zero, as invoices do.
func (a *amount) cents() *big.Int {
	var rest big.Int
	cents, _ := new(big.Int).QuoRem(&a.n, nanoPerCent, &rest)
	if rest.Abs(&rest).Lsh(&rest, 1).Cmp(nanoPerCent) >= 0 {
		cents.Add(cents, big.NewInt(int64(a.n.Sign())))
	}
	return cents
}

// dollars writes nano-dollars as dollars and cents. What is more than nothing and rounds to nothing says so.
func (a *amount) dollars() string {
	cents := a.cents()
	if cents.Sign() == 0 && !a.isZero() {
		return "<$0.01"
	}
	var rest big.Int
	whole, _ := new(big.Int).QuoRem(new(big.Int).Abs(cents), big.NewInt(100), &rest)
	sign := ""
	if cents.Sign() < 0 {
		sign = "-"
	}
	return sign + "$" + grouped(whole) + "." + twoDigits(rest.Int64())
}

func twoDigits(n int64) string {
	if n < 10 {
		return "0" + strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10)
}

// exact writes nano-dollars as dollars with all decimals that are not zeros at the end, for the CSV.
func (a *amount) exact() string {
	text, _ := new(big.Rat).SetFrac(&a.n, big.NewInt(1_000_000_000)).FloatPrec()
	return new(big.Rat).SetFrac(&a.n, big.NewInt(1_000_000_000)).FloatString(text)
}

// short writes a number of tokens in the room that a table has: 1,234 or 12.3 M.
func (a *amount) short() string {
	for _, unit := range []struct {
		digits int
		name   string
	}{{12, " T"}, {9, " B"}, {6, " M"}} {
		if len(new(big.Int).Abs(&a.n).String()) > unit.digits {
			scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(unit.digits)), nil)
			return new(big.Rat).SetFrac(&a.n, scale).FloatString(2) + unit.name
		}
	}
	return a.String()
}

// What stands for a change where there was nothing before.
const (
	noChange = "–"
	isNew    = "new"
)

// change writes by how many per cent after is more than before.
func change(before, after *amount) string {
	switch {
	case before.isZero() && after.isZero():
		return noChange
	case before.isZero():
		return isNew
	}
	difference := new(big.Int).Sub(&after.n, &before.n)
	percent := new(big.Rat).SetFrac(difference.Mul(difference, big.NewInt(100)), &before.n)
	if percent.Cmp(big.NewRat(9999, 1)) > 0 {
		return ">+9999%"
	}
	text := percent.FloatString(1)
	switch {
	case text == "0.0" || text == "-0.0":
		return "±0.0%"
	case difference.Sign() > 0:
		return "+" + text + "%"
	}
	return "−" + text[1:] + "%"
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" }
