package usage_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outlayhq/outlay/query/usage"
)

// Money is written in dollars with every digit, no exponent and no idle zeros.
func TestUSDIsWrittenExactly(t *testing.T) {
	t.Parallel()
	for nano, want := range map[string]string{
		"0": "0", "1": "0.000000001", "7500": "0.0000075", "1000000000": "1", "12000000000": "12", "999999999": "0.999999999",
		"1500000000": "1.5", "-500000000": "-0.5", "123456789012345678901234567890": "123456789012345678901.23456789",
	} {
		var u usage.USD
		n, _ := new(big.Int).SetString(nano, 10)
		if err := u.ScanNumeric(pgtype.Numeric{Int: n, Valid: true}); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(u)
		if err != nil || string(text) != want || u.String() != want {
			t.Errorf("%s nano-dollars = %s, want %s (%v)", nano, text, want, err)
		}
	}
}

// Only whole numbers are sums; what the database shortens by powers of ten is
// made long again.
func TestSumReadsNumerics(t *testing.T) {
	t.Parallel()
	scan := func(n int64, exp int32) (string, error) {
		var s usage.Sum
		err := s.ScanNumeric(pgtype.Numeric{Int: big.NewInt(n), Exp: exp, Valid: true})
		return s.String(), err
	}
	if got, err := scan(12, 3); err != nil || got != "12000" {
		t.Errorf("12e3 = %s, %v", got, err)
	}
	if got, err := scan(12000, -3); err != nil || got != "12" {
		t.Errorf("12.000 = %s, %v", got, err)
	}
	if _, err := scan(12500, -3); err == nil {
		t.Error("12.5 was read as a whole number")
	}
	var s usage.Sum
	if err := s.ScanNumeric(pgtype.Numeric{NaN: true, Valid: true}); err == nil {
		t.Error("NaN was read as a number")
	}
	if err := s.ScanNumeric(pgtype.Numeric{}); err != nil || s.String() != "0" {
		t.Errorf("NULL = %s, %v", s.String(), err)
	}
}

// Adding leaves the parts as they were.
func TestSumAddDoesNotTouchItsParts(t *testing.T) {
	t.Parallel()
	part := usage.NewSum(5)
	var total usage.Sum
	total.Add(&part)
	total.Add(&part)
	if total.String() != "10" || part.String() != "5" {
		t.Errorf("5 + 5 = %s, part %s", total.String(), part.String())
	}
}
