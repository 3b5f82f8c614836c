package price

import (
	"hash/maphash"
	"sync/atomic"
)

const (
	// cacheSets times cacheWays names are remembered, whoever sends how many others.
	cacheSets = 1024
	cacheWays = 4
	// maxCachedName keeps the cache under 4 MiB when all names are as long as they may be; longer ones are resolved anew.
	maxCachedName = 256
)

// cache remembers resolved names. A name lives in one of the few places its hash selects and pushes another out
// when they are taken, so that the size is fixed and a look-up takes no lock. The zero value is not usable.
type cache struct {
	seed maphash.Seed
	sets [cacheSets][cacheWays]atomic.Pointer[resolved]
}

func newCache() *cache { return &cache{seed: maphash.MakeSeed()} }

// place is where a name may be put; nil is nowhere.
type place = *atomic.Pointer[resolved]

// get returns the entry of a pair of names, or nil and the place for it.
func (c *cache) get(provider, model string) (place, *resolved) {
	if len(provider)+len(model) > maxCachedName {
		return nil, nil
	}
	hash := maphash.String(c.seed, model) ^ maphash.String(c.seed, provider)<<1
	set := &c.sets[hash%cacheSets]
	// Another part of the hash than the one that chose the set says which of its entries has to go.
	victim := &set[hash>>32%cacheWays]
	for i := range set {
		r := set[i].Load()
		if r == nil {
			return &set[i], nil
		}
		if r.rawModel == model && r.rawProvider == provider {
			return nil, r
		}
	}
	return victim, nil
}

// put remembers an entry in the place get returned.
func (c *cache) put(at place, r *resolved) {
	if at != nil {
		at.Store(r)
	}
}
