package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"

	"github.com/outlayhq/outlay/schema/backoff"
)

const (
	// fetchTimeout bounds one try to fetch a key set, its body included.
	fetchTimeout = 5 * time.Second
	// maxKeySetBytes bounds a key set; large providers publish some 20 KB.
	maxKeySetBytes = 512 << 10
	// keySetAge is how old a key set gets before it is fetched anew: so soon a key that
	// the provider withdrew is refused here.
	keySetAge = time.Hour
	// fetchPause is between two tries, so that tokens with made-up key ids do not make us
	// ask the provider for each.
	fetchPause = 30 * time.Second
	// minRSABits is what RFC 7518 asks of an RSA key.
	minRSABits = 2048
)

// The outcomes of a fetch.
const (
	FetchOK      = "ok"
	FetchFailed  = "failed"
	FetchLimited = "limited"
)

var errFetchLimited = errors.New("kid is not known, and the keys were fetched a moment ago")

// remoteKeys are the keys that a provider publishes, as far as they are of use. When they cannot be fetched the last
// ones stay in use. It is safe for concurrent use.
//
// jwkset and keyfunc are not used: they drop a whole key set for one broken key, take an empty set for a withdrawal of
// all keys, read without a limit of size, and do not report when keys changed, which ends remembered tokens.
type remoteKeys struct {
	address string
	client  *http.Client
	now     func() time.Time
	// count gets the outcome of each fetch.
	count func(outcome string)
	// fetches lets those who ask at the same time wait for one fetch.
	fetches singleflight.Group

	mu   sync.Mutex
	keys map[string]remoteKey
	// version counts the key sets: what was checked with one may fail with the next.
	version uint64
	// nextFetch is when an unknown key id may cause a fetch again.
	nextFetch time.Time
}

// remoteKey is a public key and the one algorithm it is for.
type remoteKey struct {
	public    any
	algorithm string
}

func newRemoteKeys(address string, now func() time.Time, count func(outcome string)) *remoteKeys {
	return &remoteKeys{
		address: address, now: now, count: count, keys: map[string]remoteKey{},
		client: &http.Client{
			Timeout: fetchTimeout,
			// An address that was checked must not lead to one that was not.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// find returns the key of an id. For an id that is not known the keys are fetched, at
// most once in fetchPause.
func (k *remoteKeys) find(ctx context.Context, id string) (remoteKey, error) {
	if key, ok := k.known(id); ok {
		return key, nil
	}
	if err := k.fetchOnce(ctx, false); err != nil {
		return remoteKey{}, err
	}
	if key, ok := k.known(id); ok {
		return key, nil
	}
	return remoteKey{}, errors.New("kid is not known")
}

func (k *remoteKeys) known(id string) (remoteKey, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, ok := k.keys[id]
	return key, ok
}

// versionNow changes whenever the keys were fetched anew.
func (k *remoteKeys) versionNow() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.version
}

// keep fetches the keys now and whenever they are old, until ctx ends.
func (k *remoteKeys) keep(ctx context.Context, failed func(error)) {
	for {
		wait := keySetAge
		if err := k.fetchOnce(ctx, true); err != nil && ctx.Err() == nil {
			failed(err)
			wait = fetchPause
		}
		if backoff.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// fetchOnce fetches the keys, or waits for the fetch that runs already. Unless it is due, it is refused for fetchPause
// after the start of another.
func (k *remoteKeys) fetchOnce(ctx context.Context, due bool) error {
	_, err, _ := k.fetches.Do("", func() (any, error) {
		// Others wait for it too, so a client that goes away does not end it. It ends by fetchTimeout.
		return nil, k.refresh(context.WithoutCancel(ctx), due)
	})
	return err
}

// refresh replaces the keys by those that the provider publishes now.
func (k *remoteKeys) refresh(ctx context.Context, due bool) error {
	if !k.begin(due) {
		k.count(FetchLimited)
		return errFetchLimited
	}
	keys, err := k.fetch(ctx)
	if err != nil {
		k.count(FetchFailed)
		return fmt.Errorf("fetch keys: %w", err)
	}
	k.count(FetchOK)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = keys
	k.version++
	return nil
}

// begin reports whether a fetch may start now, and if so, sets when the next may.
func (k *remoteKeys) begin(due bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); due || !now.Before(k.nextFetch) {
		k.nextFetch = now.Add(fetchPause)
		return true
	}
	return false
}

func (k *remoteKeys) fetch(ctx context.Context) (map[string]remoteKey, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.address, nil)
	if err != nil {
		return nil, errors.New("the address cannot be asked")
	}
	request.Header.Set("Accept", "application/json")
	response, err := k.client.Do(request)
	if err != nil {
		// The address may hold a secret; what went wrong does not.
		if failed := new(url.Error); errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxKeySetBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeySetBytes {
		return nil, fmt.Errorf("more than %d KiB", maxKeySetBytes>>10)
	}
	return parseKeySet(text)
}

// parseKeySet returns the keys of a set that can check signatures of ours, by id. One
// that cannot does not spoil the others.
func parseKeySet(text []byte) (map[string]remoteKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("not a JSON Web Key Set")
	}
	keys := map[string]remoteKey{}
	for _, item := range set.Keys {
		var jwk jose.JSONWebKey
		if err := jwk.UnmarshalJSON(item); err != nil {
			continue
		}
		algorithm := algorithmOf(jwk.Key)
		if algorithm == "" || jwk.KeyID == "" || jwk.Use != "" && jwk.Use != "sig" || jwk.Algorithm != "" && jwk.Algorithm != algorithm {
			continue
		}
		keys[jwk.KeyID] = remoteKey{jwk.Key, algorithm}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("none of %d keys can be used: each needs a kid and a public key for %v", len(set.Keys), federatedAlgorithms)
	}
	return keys, nil
}

// algorithmOf returns the algorithm that a public key is for, or "" for one that is not
// taken: a private or shared one, a weak one, another curve.
func algorithmOf(key any) string {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return jwt.SigningMethodEdDSA.Alg()
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return jwt.SigningMethodES256.Alg()
		}
	case *rsa.PublicKey:
		if key.N.BitLen() >= minRSABits {
			return jwt.SigningMethodRS256.Alg()
		}
	}
	return ""
}
