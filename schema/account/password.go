package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// The cost of one password hash: 19 MiB of memory, two passes, one thread.
const (
	argonMemoryKiB = 19 * 1024
	argonPasses    = 2
	argonThreads   = 1
	argonSaltBytes = 16
	argonHashBytes = 32
)

// Bounds of what a stored hash may ask for, so that a damaged row cannot take
// the process's memory or time.
const (
	maxArgonMemoryKiB = 256 * 1024
	maxArgonPasses    = 16
)

// MinPasswordLength and MaxPasswordLength bound a password, in characters.
const (
	MinPasswordLength = 10
	MaxPasswordLength = 200
)

// ErrBadHash is returned for a stored text that is not an argon2id hash.
var ErrBadHash = errors.New("not an argon2id hash")

// PasswordFault returns what is wrong with a new password, or "".
func PasswordFault(password string) string {
	n := utf8.RuneCountInString(password)
	switch {
	case password == "":
		return "is required"
	case !utf8.ValidString(password):
		return "must be valid UTF-8"
	case n < MinPasswordLength:
		return fmt.Sprintf("must have at least %d characters", MinPasswordLength)
	case n > MaxPasswordLength:
		return fmt.Sprintf("must have at most %d characters", MaxPasswordLength)
	case isCommon(password):
		return "is one of the most common passwords; take a longer or a less usual one"
	}
	return ""
}

// Hasher hashes and checks passwords with argon2id. It bounds how many run at
// once, because each takes 19 MiB and some 15 ms of one processor. It is safe for
// concurrent use.
type Hasher struct {
	slots chan struct{}
	decoy string
}

// NewHasher returns a Hasher that runs at most concurrent hashings at once; the
// rest wait their turn. Less than one stands for one.
func NewHasher(concurrent int) *Hasher {
	h := &Hasher{slots: make(chan struct{}, max(1, concurrent))}
	salt, sum := make([]byte, argonSaltBytes), make([]byte, argonHashBytes)
	// rand.Read never fails: since Go 1.24 it ends the program instead. A random
	// sum is the hash of no password that anybody knows.
	_, _ = rand.Read(salt)
	_, _ = rand.Read(sum)
	h.decoy = encodePHC(argonParams{memoryKiB: argonMemoryKiB, passes: argonPasses, threads: argonThreads}, salt, sum)
	return h
}

// Hash returns the PHC string of a password with a new salt. The error is that
// of ctx, which may end while waiting for a turn.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, argonSaltBytes)
	_, _ = rand.Read(salt)
	return h.hash(ctx, password, salt)
}

// HashAlike is Hash with the salt of the first of users who has one. Users with one
// e-mail address share their salt, so that one hashing checks a password against all
// of them, and the time of a sign-in does not show how many accounts have the address.
func (h *Hasher) HashAlike(ctx context.Context, users []User, password string) (string, error) {
	for i := range users {
		if _, salt, _, err := decodePHC(users[i].PasswordHash); err == nil {
			return h.hash(ctx, password, salt)
		}
	}
	return h.Hash(ctx, password)
}

func (h *Hasher) hash(ctx context.Context, password string, salt []byte) (string, error) {
	params := argonParams{memoryKiB: argonMemoryKiB, passes: argonPasses, threads: argonThreads}
	sum, err := h.sum(ctx, password, salt, params, argonHashBytes)
	if err != nil {
		return "", err
	}
	return encodePHC(params, salt, sum), nil
}

// Check reports whether password belongs to the PHC string phc. It returns
// ErrBadHash for any other text, or the error of ctx.
func (h *Hasher) Check(ctx context.Context, phc, password string) (bool, error) {
	right, err := h.CheckAll(ctx, []User{{PasswordHash: phc}}, password)
	return len(right) > 0, err
}

// CheckAll returns those users whose password it is. It hashes once for all who share
// a salt, and once for nobody. It returns ErrBadHash for a user without a hash, or the
// error of ctx.
func (h *Hasher) CheckAll(ctx context.Context, users []User, password string) (right []User, err error) {
	if len(users) == 0 {
		return nil, h.CheckNone(ctx, password)
	}
	sums := map[string][]byte{}
	for i := range users {
		params, salt, want, err := decodePHC(users[i].PasswordHash)
		if err != nil {
			return nil, err
		}
		key := fmt.Sprintf("%v %x %d", params, salt, len(want))
		if sums[key] == nil {
			if sums[key], err = h.sum(ctx, password, salt, params, len(want)); err != nil {
				return nil, err
			}
		}
		if subtle.ConstantTimeCompare(sums[key], want) == 1 {
			right = append(right, users[i])
		}
	}
	return right, nil
}

func (h *Hasher) sum(ctx context.Context, password string, salt []byte, p argonParams, length int) ([]byte, error) {
	if err := h.enter(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	return argon2.IDKey([]byte(password), salt, p.passes, p.memoryKiB, p.threads, uint32(length)), nil
}

// CheckNone takes as long as Check and is always false. It is called for an
// address that no user has, so that the time shows nobody which ones exist.
func (h *Hasher) CheckNone(ctx context.Context, password string) error {
	_, err := h.Check(ctx, h.decoy, password)
	return err
}

func (h *Hasher) enter(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to hash a password: %w", ctx.Err())
	}
}

func (h *Hasher) leave() { <-h.slots }

type argonParams struct {
	memoryKiB, passes uint32
	threads           uint8
}

// encodePHC writes the string format of the password hashing competition.
func encodePHC(p argonParams, salt, sum []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, p.memoryKiB, p.passes, p.threads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum))
}

func decodePHC(phc string) (p argonParams, salt, sum []byte, err error) {
	parts := strings.Split(phc, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, nil, nil, ErrBadHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memoryKiB, &p.passes, &p.threads); err != nil {
		return p, nil, nil, ErrBadHash
	}
	if p.memoryKiB == 0 || p.memoryKiB > maxArgonMemoryKiB || p.passes == 0 || p.passes > maxArgonPasses || p.threads == 0 {
		return p, nil, nil, ErrBadHash
	}
	salt, err = base64.RawStdEncoding.Strict().DecodeString(parts[4])
	if err != nil || len(salt) < 8 {
		return p, nil, nil, ErrBadHash
	}
	sum, err = base64.RawStdEncoding.Strict().DecodeString(parts[5])
	if err != nil || len(sum) < 16 {
		return p, nil, nil, ErrBadHash
	}
	return p, salt, sum, nil
}
