package schema

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestParseUSD(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		literal string
		want    NanoUSD
		err     error
	}{
		{"0", 0, nil},
		{"0.0", 0, nil},
		{"-0", 0, nil},
		{"0e5", 0, nil},
		{"1", 1_000_000_000, nil},
		{"0.0000075", 7_500, nil},
		{"7.5e-6", 7_500, nil},
		{"75E-7", 7_500, nil},
		{"0.075e-4", 7_500, nil},
		{"0.1", 100_000_000, nil},
		{"1e-9", 1, nil},
		{"5e-10", 0, nil},
		{"15e-10", 2, nil},
		{"25e-10", 2, nil},
		{"0.0000000005000001", 1, nil},
		{"1e-999", 0, nil},
		{"1000000", MaxEventCost, nil},
		{"1e6", MaxEventCost, nil},
		{"0.001e9", MaxEventCost, nil},
		{"1000000.000000001", 0, ErrAmountTooLarge},
		{"1000000.0000000004", MaxEventCost, nil},
		{"1e7", 0, ErrAmountTooLarge},
		{"1e300", 0, ErrAmountTooLarge},
		{"-0.5", 0, ErrNegativeAmount},
		{"-1e-12", 0, ErrNegativeAmount},
		{"NaN", 0, ErrNotAmount},
		{"", 0, ErrNotAmount},
		{"1.", 0, ErrNotAmount},
		{".5", 0, ErrNotAmount},
		{"1e", 0, ErrNotAmount},
		{"1e99999", 0, ErrNotAmount},
		{"0x10", 0, ErrNotAmount},
	} {
		got, err := ParseUSD(c.literal)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("ParseUSD(%q) = %d, %v, want %d, %v", c.literal, got, err, c.want, c.err)
		}
	}
}

// Another bound holds to the last nano-dollar, up to the largest there can be.
func TestParseUSDUpTo(t *testing.T) {
	t.Parallel()
	const billion = 1_000_000_000 * NanoUSD(nanoPerUSD)
	for _, c := range []struct {
		literal string
		most    NanoUSD
		want    NanoUSD
		err     error
	}{
		{"1000000000", billion, billion, nil},
		{"1e9", billion, billion, nil},
		{"1000000000.0000000005", billion, billion, nil},
		{"1000000000.000000001", billion, 0, ErrAmountTooLarge},
		{"1e10", billion, 0, ErrAmountTooLarge},
		{"999999999.999999999", billion, billion - 1, nil},
		{"50", 50 * nanoPerUSD, 50 * nanoPerUSD, nil},
		{"50.000000001", 50 * nanoPerUSD, 0, ErrAmountTooLarge},
		{"9223372036.854775807", math.MaxInt64, math.MaxInt64, nil},
		{"9223372036.8547758075", math.MaxInt64, 0, ErrAmountTooLarge},
		{"9223372036.854775808", math.MaxInt64, 0, ErrAmountTooLarge},
		{"-1", billion, 0, ErrNegativeAmount},
		{"ten", billion, 0, ErrNotAmount},
	} {
		got, err := ParseUSDUpTo(c.literal, c.most)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("ParseUSDUpTo(%q, %s) = %d, %v, want %d, %v", c.literal, c.most, got, err, c.want, c.err)
		}
	}
}

// What is printed reads back as the same amount.
func TestNanoUSDRoundTrips(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := NanoUSD(rapid.Int64Range(0, int64(MaxEventCost)).Draw(t, "nano"))
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var back NanoUSD
		if err := json.Unmarshal(text, &back); err != nil || back != n {
			t.Fatalf("%d is printed as %s and read as %d, %v", n, text, back, err)
		}
	})
}

// Rounding is half to even on the exact decimal, as big rational numbers have it.
func TestParseUSDRoundsHalfToEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		literal := rapid.StringMatching(`(0|[1-9][0-9]{0,5})\.[0-9]{1,14}(e-?[0-2])?`).Draw(t, "literal")
		exact, ok := new(big.Rat).SetString(literal)
		if !ok {
			t.Skip("not a number")
		}
		exact.Mul(exact, big.NewRat(nanoPerUSD, 1))
		want := roundRat(exact)
		got, err := ParseUSD(literal)
		if want.Cmp(big.NewInt(int64(MaxEventCost))) > 0 {
			if !errors.Is(err, ErrAmountTooLarge) {
				t.Fatalf("ParseUSD(%s) = %d, %v, want ErrAmountTooLarge", literal, got, err)
			}
			return
		}
		if err != nil || want.Cmp(big.NewInt(int64(got))) != 0 {
			t.Fatalf("ParseUSD(%s) = %d, %v, want %s", literal, got, err, want)
		}
	})
}

func roundRat(r *big.Rat) *big.Int {
	whole, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	switch rest.Lsh(rest, 1).Cmp(r.Denom()) {
	case 1:
		whole.Add(whole, big.NewInt(1))
	case 0:
		whole.Add(whole, new(big.Int).And(whole, big.NewInt(1)))
	}
	return whole
}

func TestNanoUSDString(t *testing.T) {
	t.Parallel()
	for n, want := range map[NanoUSD]string{
		0: "0", 1: "0.000000001", 7_500: "0.0000075", nanoPerUSD: "1", 12_340_000_000: "12.34", -500_000_000: "-0.5",
	} {
		if got := n.String(); got != want {
			t.Errorf("NanoUSD(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestParseCount(t *testing.T) {
	t.Parallel()
	for literal, want := range map[string]int64{
		"0": 0, "-0": 0, "12": 12, "12.0": 12, "1.2e1": 12, "120e-1": 12, "1e3": 1000, "9007199254740991": MaxCount,
		"0.0": 0, "-1": -1, "1.5": -1, "9007199254740992": -1, "1e16": -1, "1e300": -1, "1e-1": -1, "99999999999999999999": -1,
	} {
		got, ok := ParseCount(literal)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("ParseCount(%s) = %d, %v, want %d", literal, got, ok, want)
		}
	}
}
