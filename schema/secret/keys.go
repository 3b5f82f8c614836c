// Package secret encrypts what the database keeps and has to be read again, such as the
// signing secrets of webhooks: with a key from a file, so that a dump of the database
// does not have them. What only has to be recognised, such as API keys and passwords, is
// kept as a hash elsewhere.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrNoKey is returned for a text that none of the keys opens: it was sealed with
// another one, or for another place.
var ErrNoKey = errors.New("no key of --secrets-key-file opens this secret")

// keyBytes is the length of a key, of AES-256.
const keyBytes = 32

// sealedPrefix starts every text that was sealed; no secret of ours starts with it.
const sealedPrefix = "enc1:"

// Keys seal and open secrets. The zero Keys has none: it keeps secrets as they are. It is
// safe for concurrent use.
type Keys struct {
	// first seals.
	first string
	all   map[string]cipher.AEAD
}

// Load reads a key file: one key of 64 hexadecimal digits in a line. The first one seals,
// all of them open. An empty path gives the zero Keys.
func Load(path string) (*Keys, error) {
	if path == "" {
		return &Keys{}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	keys := &Keys{all: map[string]cipher.AEAD{}}
	for line := range strings.FieldsSeq(string(text)) {
		if err := keys.add(line); err != nil {
			return nil, err
		}
	}
	if keys.first == "" {
		return nil, errors.New("the file has no key; make one with: openssl rand -hex 32")
	}
	return keys, nil
}

func (k *Keys) add(line string) error {
	key, err := hex.DecodeString(line)
	if err != nil || len(key) != keyBytes {
		return errors.New("each line of the file has to be a key of 64 hexadecimal digits; make one with: openssl rand -hex 32")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return fmt.Errorf("make a cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return fmt.Errorf("make a cipher: %w", err)
	}
	sum := sha256.Sum256(key)
	id := hex.EncodeToString(sum[:4])
	k.all[id] = aead
	if k.first == "" {
		k.first = id
	}
	return nil
}

// Create makes a key file with one new key, which only its owner can read. The error is
// fs.ErrExist when the file is there.
func Create(path string) error {
	var key [keyBytes]byte
	// rand.Read never fails: since Go 1.24 it ends the program instead.
	_, _ = rand.Read(key[:])
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	_, err = fmt.Fprintln(file, hex.EncodeToString(key[:]))
	return errors.Join(err, file.Close())
}

// Encrypts reports whether there is a key.
func (k *Keys) Encrypts() bool { return k != nil && k.first != "" }

// Prefix starts every text that Seal returns now. It is empty without a key.
func (k *Keys) Prefix() string {
	if !k.Encrypts() {
		return ""
	}
	return sealedPrefix + k.first + ":"
}

// Seal returns a secret as it may be kept in one place, such as a row: moved to another
// one it does not open. Without a key that is the secret itself.
func (k *Keys) Seal(plain, place string) string {
	if !k.Encrypts() {
		return plain
	}
	return k.Prefix() + base64.RawStdEncoding.EncodeToString(k.all[k.first].Seal(nil, nil, []byte(plain), []byte(place)))
}

// Open returns the secret that Seal was given. A text that was never sealed is returned
// as it is. It returns ErrNoKey.
func (k *Keys) Open(text, place string) (string, error) {
	sealed, isSealed := strings.CutPrefix(text, sealedPrefix)
	if !isSealed {
		return text, nil
	}
	id, encoded, _ := strings.Cut(sealed, ":")
	if k == nil || k.all[id] == nil {
		return "", ErrNoKey
	}
	data, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		return "", ErrNoKey
	}
	plain, err := k.all[id].Open(nil, nil, data, []byte(place))
	if err != nil {
		return "", ErrNoKey
	}
	return string(plain), nil
}
