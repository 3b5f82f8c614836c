package report

import (
	"fmt"
	"math/big"
	"strconv"

	"github.com/outlayhq/outlay/schema"
)

// amount is a sum of tokens or of nano-dollars, as the document writes it.
type amount struct{ schema.Sum }

// amountOf returns a number that is not negative as an amount.
func amountOf(n int64) amount { return amount{schema.SumOf(n)} }

// times returns a small multiple of a.
func (a *amount) times(n int64) (product amount) {
	for range n {
		product.add(a)
	}
	return product
}

func (a *amount) add(b *amount) { a.AddSum(b.Sum) }

func (a *amount) cmp(b *amount) int { return a.Int().Cmp(b.Int()) }

func (a *amount) isZero() bool { return a.Sum == schema.Sum{} }

// share returns a as a part of b, 0 where b is nothing. It is for lengths of bars and for per cents, not for money.
func (a *amount) share(b *amount) float64 {
	if b.isZero() {
		return 0
	}
	part, _ := new(big.Rat).SetFrac(a.Int(), b.Int()).Float64()
	return part
}

// grouped writes a whole number with commas between thousands.
func grouped(n *big.Int) string {
	digits := n.Append(nil, 10)
	text := make([]byte, 0, len(digits)*4/3)
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			text = append(text, ',')
		}
		text = append(text, d)
	}
	return string(text)
}

// String writes the number with commas between thousands.
func (a *amount) String() string { return grouped(a.Int()) }

// count writes a number of events with commas between thousands.
func count(n int64) string { return grouped(big.NewInt(n)) }

// nanoPerCent is how many nano-dollars a cent has.
var nanoPerCent = big.NewInt(10_000_000)

// cents rounds nano-dollars to cents, half of one up, as invoices do.
func (a *amount) cents() *big.Int {
	var rest big.Int
	cents, _ := new(big.Int).QuoRem(a.Int(), nanoPerCent, &rest)
	if rest.Lsh(&rest, 1).Cmp(nanoPerCent) >= 0 {
		cents.Add(cents, big.NewInt(1))
	}
	return cents
}

// dollars writes nano-dollars as dollars and cents. An amount above zero that rounds to zero is written as less than a cent.
func (a *amount) dollars() string {
	cents := a.cents()
	if cents.Sign() == 0 && !a.isZero() {
		return "<$0.01"
	}
	whole, rest := new(big.Int).QuoRem(cents, big.NewInt(100), new(big.Int))
	return fmt.Sprintf("$%s.%02d", grouped(whole), rest)
}

// exact writes nano-dollars as dollars with all decimals that are not zeros at the end, for the CSV.
func (a *amount) exact() string {
	dollars := new(big.Rat).SetFrac(a.Int(), big.NewInt(1_000_000_000))
	decimals, _ := dollars.FloatPrec()
	return dollars.FloatString(decimals)
}

// short writes a number of tokens in the space of a table cell: 1,234 or 12.3 M.
func (a *amount) short() string {
	for _, unit := range []struct {
		digits int
		name   string
	}{{12, " T"}, {9, " B"}, {6, " M"}} {
		if len(a.Sum.String()) > unit.digits {
			scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(unit.digits)), nil)
			return new(big.Rat).SetFrac(a.Int(), scale).FloatString(2) + unit.name
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
	// Exact up to the last rounding: a change of 0.05 per cent of a large sum is not lost.
	difference := new(big.Int).Sub(after.Int(), before.Int())
	percent := new(big.Rat).SetFrac(difference.Mul(difference, big.NewInt(100)), before.Int())
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

// percent writes a share of 1 with one decimal.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" }
