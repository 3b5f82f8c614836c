package account

import (
	"hash/crc32"
	"strings"
	"testing"
)

// A key is accepted as it was made and refused with any one character changed,
// so that a typo costs no look-up.
func TestParseSecretRefusesEveryTypo(t *testing.T) {
	t.Parallel()
	secret := NewSecret()
	if _, ok := ParseSecret(secret); !ok {
		t.Fatal("a new key is refused")
	}
	for i := range len(secret) {
		for _, c := range "aZ0-" {
			typo := secret[:i] + string(c) + secret[i+1:]
			if _, ok := ParseSecret(typo); ok && typo != secret {
				t.Errorf("character %d changed to %q is accepted", i, c)
			}
		}
	}
}

// Keys that were given out stay good: the checksum is the CRC-32 of everybody.
func TestCRCIsTheOneOfIEEE(t *testing.T) {
	t.Parallel()
	for range 100 {
		text := []byte(NewSecret())
		if got, want := crc(text), crc32.ChecksumIEEE(text); got != want {
			t.Fatalf("%s: %08x, want %08x", text, got, want)
		}
	}
}

func TestParseSecretRefuses(t *testing.T) {
	t.Parallel()
	secret := NewSecret()
	for name, text := range map[string]string{
		"empty":        "",
		"prefix alone": KeyPrefix,
		"cut off":      secret[:len(secret)-1],
		"too long":     secret + "a",
		"other prefix": strings.Replace(secret, "live", "test", 1),
		"a JWT":        "eyJhbGciOiJFZERTQSJ9.e30.c2ln",
	} {
		if _, ok := ParseSecret(text); ok {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Two keys are never the same, and their hashes are not either.
func TestNewSecretDiffers(t *testing.T) {
	t.Parallel()
	a, b := NewSecret(), NewSecret()
	ha, _ := ParseSecret(a)
	hb, _ := ParseSecret(b)
	if a == b || ha == hb {
		t.Error("two new keys are the same")
	}
}
