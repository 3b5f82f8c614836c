package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"
)

// ID is a UUID. In JSON and URLs it is written as a TypeID: a prefix that says
// what it names, an underscore, and 26 characters of Crockford base32.
type ID [16]byte

// Prefix says what an ID names. It is part of the ID's text form only.
type Prefix string

// The prefixes of every resource.
const (
	EventPrefix   Prefix = "evt"
	SessionPrefix Prefix = "ses"
	AccountPrefix Prefix = "acc"
	UserPrefix    Prefix = "usr"
	KeyPrefix     Prefix = "key"
)

// ErrBadID is returned for text that is not an ID of the wanted prefix.
var ErrBadID = errors.New("not a valid id")

// Crockford's base32 in lower case, as the TypeID specification has it.
const base32Alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

const base32Length = 26

// NewID returns a UUIDv7: its first 48 bits are now in Unix milliseconds, so
// that ids made later sort later, and 74 bits are random.
func NewID(now time.Time) ID {
	var id ID
	// An id is no secret. This generator is ChaCha8, seeded by the operating system,
	// one for each thread, and asks nobody.
	high, low := rand.Uint64(), rand.Uint64()
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|high&0x0fff|0x7000)
	binary.BigEndian.PutUint64(id[8:], low&(1<<62-1)|1<<63)
	return id
}

// KeyedEventID returns the event id that belongs to an idempotency key. It
// depends on the account and the key alone, so every replica answers a retry
// with the same id. The result is a UUIDv8 made of a SHA-256 hash.
func KeyedEventID(account ID, key string) ID {
	text := append(make([]byte, 0, 128), "outlay event by idempotency key\x00"...)
	text = append(text, account[:]...)
	text = append(text, key...)
	sum := sha256.Sum256(text)
	var id ID
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// IsZero reports whether id is the zero ID, which names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Text returns the TypeID form, such as "evt_01jd8w2m3n4p5q6r7s8t9v0wxy".
func (id ID) Text(p Prefix) string {
	return string(id.AppendText(make([]byte, 0, len(p)+1+base32Length), p))
}

// AppendText appends the TypeID form to dst.
func (id ID) AppendText(dst []byte, p Prefix) []byte {
	dst = append(dst, p...)
	dst = append(dst, '_')
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	var text [base32Length]byte
	for i := base32Length - 1; i >= 0; i-- {
		text[i] = base32Alphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return append(dst, text[:]...)
}

// ParseID reads the TypeID form. It returns ErrBadID for another prefix, a
// wrong length, a character outside the alphabet, or more than 128 bits.
func ParseID(p Prefix, text string) (ID, error) {
	if len(text) != len(p)+1+base32Length || text[:len(p)] != string(p) || text[len(p)] != '_' {
		return ID{}, ErrBadID
	}
	text = text[len(p)+1:]
	if text[0] > '7' {
		return ID{}, ErrBadID
	}
	var hi, lo uint64
	for i := range len(text) {
		v := base32Value(text[i])
		if v < 0 {
			return ID{}, ErrBadID
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	var id ID
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, nil
}

// base32Value returns the value of c, or -1. It takes lower case only, so that
// an id has one text form.
func base32Value(c byte) int {
	for i := range len(base32Alphabet) {
		if base32Alphabet[i] == c {
			return i
		}
	}
	return -1
}
