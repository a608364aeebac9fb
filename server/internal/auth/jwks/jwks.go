// Package jwks finds the public keys of tokens in JSON Web Key Sets, which identity providers serve over HTTP
// (docs/tokens.md). Keys stay in use until a fetch brings others, so a slow or broken endpoint refuses no client for a
// while. An unknown key starts a fetch at once, for all goroutines that wait for it, and at most one per Interval.
package jwks

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
)

const (
	// Interval is the shortest time between the beginnings of two fetches of a set.
	Interval = 2 * time.Second
	// RenewAfter is the age of keys with which the cache fetches them again; they stay in use.
	RenewAfter = time.Hour
	// retryAfter is the shortest time between fetches that only renew keys.
	retryAfter = 30 * time.Second
	// KeepFor is how long keys stay in use without a successful fetch.
	KeepFor = 24 * time.Hour
	// maxSets bounds the sets of a cache. Without the safety check of templates, a client can ask for any number.
	maxSets    = 1000
	maxFetches = 16
)

// Errors of Endpoint.Key. None has a part of the token.
var (
	ErrUnknown   = errors.New("the JWKS has no key with the token's kid")
	ErrAlgorithm = errors.New("the key with the token's kid is for another algorithm")
	// ErrUnavailable: the key is not known, and the last fetch failed.
	ErrUnavailable = errors.New("the key with the token's kid is not known, and the JWKS cannot be fetched")

	errClosed = errors.New("the server is stopping")
	errFull   = errors.New("too many different URLs of JWKS are asked for at a time")
)

// Cache holds fetched sets. It outlives the configuration, so that a reload forgets no keys. Any goroutine may use it.
type Cache struct {
	// Dial, if set before the first call of Endpoint, opens connections.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	log   *slog.Logger
	ctx   context.Context // of all fetches
	stop  context.CancelFunc
	slots chan struct{} // one for each fetch under way
	limit int           // sets; tests set another number

	mu   sync.Mutex
	sets map[source]*set

	running sync.Mutex // never held while another lock is taken
	closed  bool
	fetches sync.WaitGroup
}

type source struct {
	url string
	tls config.TLS
}

// NewCache returns an empty cache, which must be closed. log is wrapped by logging.Wrap.
func NewCache(log *slog.Logger) *Cache {
	c := &Cache{log: logging.Wrap(log), slots: make(chan struct{}, maxFetches), limit: maxSets, sets: make(map[source]*set)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Close ends running fetches and waits for them. Lookups of unknown keys fail then.
func (c *Cache) Close() {
	c.running.Lock()
	c.closed = true
	c.running.Unlock()
	c.stop()
	c.fetches.Wait()
}

// run runs f in the background; false after Close.
func (c *Cache) run(f func()) bool {
	c.running.Lock()
	defer c.running.Unlock()
	if !c.closed {
		c.fetches.Go(f)
	}
	return !c.closed
}

// set returns the set of a source, nil if there is no room.
func (c *Cache) set(from source) *set {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sets[from]
	if s == nil {
		if len(c.sets) >= c.limit && !c.makeRoom() {
			return nil
		}
		s = &set{cache: c, source: from}
		c.sets[from] = s
	}
	s.used = time.Now()
	return s
}

// makeRoom forgets the set that was not used for longest, preferably one without keys.
func (c *Cache) makeRoom() bool {
	var oldest *set
	var hasKeys bool
	for _, s := range c.sets {
		keys, busy := s.state()
		if busy || oldest != nil && (keys && !hasKeys || keys == hasKeys && s.used.After(oldest.used)) {
			continue
		}
		oldest, hasKeys = s, keys
	}
	if oldest != nil {
		delete(c.sets, oldest.source)
	}
	return oldest != nil
}

// Endpoint fetches sets for one key of the configuration.
type Endpoint struct {
	cache  *Cache
	key    string
	tls    config.TLS
	client *http.Client
}

// Endpoint returns an endpoint. The log names it by key, the configuration key of its URL.
func (c *Cache) Endpoint(key string, secure config.TLS) (*Endpoint, error) {
	cfg, err := secure.ClientConfig()
	if err != nil {
		return nil, err
	}
	if !secure.Enabled {
		secure = config.TLS{} // the rest of the object does not matter
	}
	return &Endpoint{cache: c, key: key, tls: secure, client: c.newClient(cfg)}, nil
}

// Key returns the public key with an ID for an algorithm such as ES256: *rsa.PublicKey, *ecdsa.PublicKey or
// ed25519.PublicKey. It waits for a fetch if the key is not known, a few seconds or until ctx ends.
func (e *Endpoint) Key(ctx context.Context, url, kid, alg string) (crypto.PublicKey, error) {
	s := e.cache.set(source{url, e.tls})
	if s == nil {
		return nil, errFull
	}
	arrived := time.Now()
	for {
		key, fetched, err := s.find(e, kid, alg, arrived)
		if fetched == nil {
			return key, err
		}
		select {
		case <-fetched:
		case <-ctx.Done():
			return nil, fmt.Errorf("the JWKS was not fetched in time: %w", ctx.Err())
		}
	}
}

// Probe fetches the set at a URL without the cache, and returns its number of keys. skipped says why some cannot be
// used. A deadline of ctx replaces Timeout.
func (e *Endpoint) Probe(ctx context.Context, url string) (keys int, skipped, err error) {
	list, skipped, err := e.fetch(ctx, url)
	return len(list), skipped, err
}

// Prefetch begins to fetch the set at a URL unless its keys are known.
func (e *Endpoint) Prefetch(url string) {
	s := e.cache.set(source{url, e.tls})
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) == 0 && s.fetching == nil {
		s.fetch(e, 0)
	}
}

type set struct {
	cache  *Cache
	source source
	used   time.Time // guarded by cache.mu

	mu sync.Mutex
	// keys are from the last successful fetch, which ended at confirmed.
	keys      []key
	confirmed time.Time
	began     time.Time // when the last request was sent
	outage    logging.Outage
	// fetching is closed when the running fetch ends; nil if there is none.
	fetching chan struct{}
}

func (s *set) state() (hasKeys, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys) > 0, s.fetching != nil
}

// find looks for a key. If it is not known, and no request that was sent after arrived has been answered, find returns a
// channel that is closed when the caller should try again.
func (s *set) find(e *Endpoint, kid, alg string, arrived time.Time) (crypto.PublicKey, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	age := now.Sub(s.confirmed)
	known := false
	for i := range s.keys {
		k := &s.keys[i]
		if k.id != kid || age >= KeepFor {
			continue
		}
		known = true
		if !k.fits(alg) {
			continue
		}
		if age >= RenewAfter && s.fetching == nil && now.Sub(s.began) >= retryAfter {
			s.fetch(e, 0)
		}
		return k.public, nil, nil
	}
	switch {
	case known:
		return nil, nil, ErrAlgorithm
	case s.fetching != nil:
	case !s.began.IsZero() && !s.began.Before(arrived):
		if s.outage.Err() != nil {
			return nil, nil, ErrUnavailable
		}
		return nil, nil, ErrUnknown
	case !s.fetch(e, max(0, Interval-now.Sub(s.began))):
		return nil, nil, errClosed
	}
	return nil, s.fetching, nil
}

// fetch begins a fetch after a time; false if the cache is closed. The caller holds s.mu, and no fetch is running.
func (s *set) fetch(e *Endpoint, after time.Duration) bool {
	done := make(chan struct{})
	if !s.cache.run(func() { s.fetchNow(e, after, done) }) {
		return false
	}
	s.fetching = done
	return true
}

func (s *set) fetchNow(e *Endpoint, after time.Duration, done chan struct{}) {
	ctx := s.cache.ctx
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case s.cache.slots <- struct{}{}:
		defer func() { <-s.cache.slots }()
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.began = time.Now()
	s.mu.Unlock()
	keys, skipped, err := e.fetch(ctx, s.source.url)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report(e, keys, skipped, err)
	s.fetching = nil
	close(done)
}

// report takes the result of a fetch, and logs when an endpoint begins to fail, and when it works again.
func (s *set) report(e *Endpoint, keys []key, skipped, err error) {
	at := []any{"key", e.key, "url", redacted(s.source.url)}
	if err != nil {
		if s.outage.Fail(err) == 1 && s.cache.ctx.Err() == nil {
			s.cache.log.Warn("JWKS cannot be fetched: the keys that are known stay in use", append(at, "known", len(s.keys), "error", err)...)
		}
		return
	}
	s.keys, s.confirmed = keys, time.Now()
	if failures, _ := s.outage.End(); failures > 0 {
		s.cache.log.Info("JWKS is fetched again", append(at, "keys", len(keys), "failures", failures)...)
	}
	if skipped != nil {
		s.cache.log.Warn("JWKS has keys that cannot be used", append(at, "error", skipped)...)
	}
}

type key struct {
	id string
	// only is the one algorithm of the key; "" if it is for all of its kind.
	only   string
	algs   []string
	public crypto.PublicKey
}

func (k *key) fits(alg string) bool {
	for _, a := range k.algs {
		if a == alg {
			return cmp.Or(k.only, alg) == alg
		}
	}
	return false
}
