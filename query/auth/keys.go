package auth

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/go-jose/go-jose/v4"
)

// Keys signs tokens with one Ed25519 key and accepts the signatures of that one
// and of any number of former or coming keys, so that a key can be replaced
// without signing anybody out. It does not change after it was loaded.
type Keys struct {
	privates  []ed25519.PrivateKey // the signing one first
	signingID string
	public    map[string]ed25519.PublicKey
	order     []string // ids in the order of the file, for the JWKS
}

// LoadKeys reads the keys of a PEM file: see ParseKeys.
func LoadKeys(path string) (*Keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	keys, err := ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("read signing keys of %s: %w", path, err)
	}
	return keys, nil
}

// ParseKeys reads PEM blocks: "PRIVATE KEY" (PKCS #8) and "PUBLIC KEY" (PKIX),
// Ed25519 all of them. The first private key signs; every key in the file is
// accepted. To replace a key without a gap, add the new one behind the old one on
// every replica, then put it first, and take the old one out when the last token
// it signed has expired.
func ParseKeys(text []byte) (*Keys, error) {
	keys := &Keys{public: map[string]ed25519.PublicKey{}}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if err := keys.add(block); err != nil {
			return nil, err
		}
	}
	if len(keys.privates) == 0 {
		return nil, errors.New("no Ed25519 private key in PEM form (make one with: openssl genpkey -algorithm ed25519)")
	}
	return keys, nil
}

func (k *Keys) add(block *pem.Block) error {
	switch block.Type {
	case "PRIVATE KEY":
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return errors.New("a private key is not in PKCS #8 form")
		}
		private, ok := parsed.(ed25519.PrivateKey)
		if !ok {
			return errors.New("a private key is not an Ed25519 key")
		}
		id := k.accept(private.Public().(ed25519.PublicKey))
		if len(k.privates) == 0 {
			k.signingID = id
		}
		k.privates = append(k.privates, private)
	case "PUBLIC KEY":
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return errors.New("a public key is not in PKIX form")
		}
		public, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return errors.New("a public key is not an Ed25519 key")
		}
		k.accept(public)
	default:
		return fmt.Errorf("a PEM block of type %q is neither PRIVATE KEY nor PUBLIC KEY", block.Type)
	}
	return nil
}

// accept makes a public key known under its thumbprint and returns that.
func (k *Keys) accept(public ed25519.PublicKey) (id string) {
	id = thumbprint(public)
	if _, known := k.public[id]; !known {
		k.public[id] = public
		k.order = append(k.order, id)
	}
	return id
}

// thumbprint is the key id: the JWK thumbprint of RFC 7638, which depends on the
// key alone.
func thumbprint(public ed25519.PublicKey) string {
	canonical := `{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(public) + `"}`
	sum := sha256.Sum256([]byte(canonical))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// CreateKeyFile makes a new signing key in a file that only its owner can read.
// It returns an error that is os.ErrExist when there is such a file already, which
// it leaves alone.
func CreateKeyFile(path string) error {
	// GenerateKey never fails: since Go 1.24 the reader ends the program instead.
	_, private, _ := ed25519.GenerateKey(rand.Reader)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return fmt.Errorf("write signing key: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write signing key: %w", err)
	}
	err = pem.Encode(file, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write signing key: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

// JWKS returns the public keys that other services check our tokens with, the signing one included.
func (k *Keys) JWKS() jose.JSONWebKeySet {
	set := jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, 0, len(k.order))}
	for _, id := range k.order {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.public[id], KeyID: id, Use: "sig", Algorithm: algorithm})
	}
	return set
}

// Derive returns, for each private key of ours, the signing one first, a secret
// that belongs to a purpose and an id. It lets a secret be shown again that is
// stored nowhere.
func (k *Keys) Derive(purpose string, id [16]byte) [][sha256.Size]byte {
	secrets := make([][sha256.Size]byte, 0, len(k.privates))
	for _, private := range k.privates {
		mac := hmac.New(sha256.New, private.Seed())
		mac.Write([]byte("outlay " + purpose + "\x00"))
		mac.Write(id[:])
		var secret [sha256.Size]byte
		mac.Sum(secret[:0])
		secrets = append(secrets, secret)
	}
	return secrets
}
