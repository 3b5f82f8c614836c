package account

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"strings"
)

// KeyPrefix starts every API key, so that people and secret scanners know one.
const KeyPrefix = "outlay_live_"

// A key is the prefix, 30 random base62 characters (178 bits) and 6 base62
// characters of the CRC-32 of all before it.
const (
	secretLength   = 30
	checksumLength = 6
	keyLength      = len(KeyPrefix) + secretLength + checksumLength
)

const base62Alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Hash is the SHA-256 of an API key: all that is ever stored of it.
type Hash [sha256.Size]byte

// NewSecret returns a new API key. It is shown to its owner once.
func NewSecret() string {
	var b strings.Builder
	b.WriteString(KeyPrefix)
	for range secretLength {
		// rand.Int never fails: since Go 1.24 the reader ends the program instead.
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(base62Alphabet))))
		b.WriteByte(base62Alphabet[n.Int64()])
	}
	sum := checksum([]byte(b.String()))
	return b.String() + string(sum[:])
}

// ParseSecret returns the hash of an API key. ok is false for text that cannot
// be a key of ours: another prefix, another length, or a checksum that does not
// fit. Such a key is refused without looking it up.
func ParseSecret(text string) (h Hash, ok bool) {
	if len(text) != keyLength || !strings.HasPrefix(text, KeyPrefix) {
		return Hash{}, false
	}
	var all [keyLength]byte
	copy(all[:], text)
	body := all[:keyLength-checksumLength]
	if sum := checksum(body); string(sum[:]) != text[len(body):] {
		return Hash{}, false
	}
	return sha256.Sum256(all[:]), true
}

// Hint returns the last four characters of a key, by which its owner knows it.
func Hint(secret string) string { return secret[max(0, len(secret)-4):] }

func checksum(text []byte) (sum [checksumLength]byte) {
	n := crc(text)
	for i := checksumLength - 1; i >= 0; i-- {
		sum[i] = base62Alphabet[n%62]
		n /= 62
	}
	return sum
}

// crc is crc32.ChecksumIEEE, which is faster but would have text on the heap: together
// that takes as long, and leaves something to collect of every request.
func crc(text []byte) uint32 {
	n := ^uint32(0)
	for _, b := range text {
		n = crc32.IEEETable[byte(n)^b] ^ n>>8
	}
	return ^n
}
