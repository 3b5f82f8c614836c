package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxVerified bounds the memory; when it is full it starts anew.
const maxVerified = 10_000

// tokenCache remembers tokens that were found good, since checking a signature takes
// longer than answering many a question. It knows them by their SHA-256, so that none
// can be taken out of the memory and used. A token that is remembered is good only in
// its own time and as long as the keys are the same; whether its user and its sign-in
// still stand is asked elsewhere, for every request. It is safe for concurrent use.
type tokenCache struct {
	mu    sync.Mutex
	known map[tokenSum]verifiedToken
}

type tokenSum [sha256.Size]byte

// verifiedToken is what a token said.
type verifiedToken struct {
	who Principal
	// from is the later of nbf and iat, zero without either.
	from time.Time
	// issuer made the token, with keys of this version; nil for ourselves, whose keys
	// do not change.
	issuer     *federatedIssuer
	keyVersion uint64
}

func newTokenCache() *tokenCache { return &tokenCache{known: map[tokenSum]verifiedToken{}} }

// find returns the token of a sum, if it is good at this time and by the keys of now.
func (v *tokenCache) find(sum tokenSum, now time.Time) (verifiedToken, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	token, ok := v.known[sum]
	if !ok {
		return verifiedToken{}, false
	}
	if !token.holds(now) {
		delete(v.known, sum)
		return verifiedToken{}, false
	}
	return token, true
}

// holds is as strict as the parser is with the times of a token.
func (t *verifiedToken) holds(now time.Time) bool {
	return now.Before(t.who.ExpiresAt.Add(leeway)) && !now.Before(t.from.Add(-leeway)) &&
		(t.issuer == nil || t.issuer.keys.versionNow() == t.keyVersion)
}

func (v *tokenCache) remember(sum tokenSum, token verifiedToken) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= maxVerified {
		clear(v.known)
	}
	v.known[sum] = token
}
