// Package rights decides which senders may use the server API, and for what (docs/http-api.md). A Guard returns the
// executor for the requests of a sender.
package rights

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/gobwas/glob"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/auth/jwks"
	"github.com/gyrohq/gyro/server/internal/config"
)

// ErrUnauthorized: the sender is not known. It is in a *refusal.Reason, whose text the sender may see.
var ErrUnauthorized = errors.New("unauthorized")

const (
	// minKey is the shortest key with rights, in bytes.
	minKey = 16
	// maxChannel is the longest channel name that is compared with patterns, in bytes.
	maxChannel = 1024
)

var namePattern = regexp.MustCompile(`^[-a-zA-Z0-9_.]{2,64}$`)

// Config of a Guard.
type Config struct {
	// Section begins keys in errors, such as http_api.
	Section string
	// Key has all rights; may be empty.
	Key string
	// Insecure gives all rights to everybody.
	Insecure bool
	Keys     []config.APIKey
	JWKS     config.APIJWKS
	// Sets caches keys of tokens; nil: a cache of the guard.
	Sets *jwks.Cache
}

// Guard knows the senders of requests. It is immutable.
type Guard struct {
	section  string
	insecure bool
	// digest of Key: comparing digests takes the same time for keys of any length.
	digest [sha256.Size]byte
	hasKey bool
	named  []named
	tokens *auth.APIVerifier // nil: not enabled
	bearer *holder
}

type named struct {
	digest [sha256.Size]byte
	holder *holder
}

// New returns a guard. Errors name the key, and no secret.
func New(c Config) (*Guard, error) {
	g := &Guard{section: c.Section, insecure: c.Insecure, hasKey: c.Key != "", digest: sha256.Sum256([]byte(c.Key))}
	names, digests := map[string]bool{}, map[[sha256.Size]byte]bool{g.digest: true}
	for i, k := range c.Keys {
		at := config.Element(c.Section+".keys", i, k.Name)
		n := named{digest: sha256.Sum256([]byte(k.Key))}
		switch {
		case !namePattern.MatchString(k.Name):
			return nil, fmt.Errorf("%s: the name does not match %s", at, namePattern)
		case names[k.Name]:
			return nil, fmt.Errorf("%s: the name is given twice", at)
		case len(k.Key) < minKey:
			return nil, fmt.Errorf("%s.key: is shorter than %d bytes", at, minKey)
		case digests[n.digest]:
			return nil, fmt.Errorf("%s.key: another name has the same key", at)
		}
		names[k.Name], digests[n.digest] = true, true
		var err error
		if n.holder, err = newHolder("API key "+k.Name, at, k.Methods, k.Channels); err != nil {
			return nil, err
		}
		g.named = append(g.named, n)
	}
	if !c.JWKS.Enabled {
		return g, nil
	}
	at := c.Section + ".jwks"
	var err error
	if g.tokens, err = auth.NewAPIVerifier(c.JWKS, auth.Options{Section: at, JWKS: c.Sets}); err != nil {
		return nil, fmt.Errorf("%s.%w", at, err)
	}
	g.bearer, err = newHolder("bearer token", at, c.JWKS.Methods, c.JWKS.Channels)
	return g, err
}

// Prefetch begins to fetch the keys of tokens.
func (g *Guard) Prefetch() {
	if g.tokens != nil {
		g.tokens.Prefetch()
	}
}

// Credentials of a request: a key, else a token.
type Credentials struct{ Key, Token string }

// Authorization parses "apikey KEY" or "Bearer TOKEN".
func Authorization(value string) Credentials {
	parts := strings.Fields(value)
	switch {
	case len(parts) != 2:
	case strings.EqualFold(parts[0], "apikey"):
		return Credentials{Key: parts[1]}
	case strings.EqualFold(parts[0], "bearer"):
		return Credentials{Token: parts[1]}
	}
	return Credentials{}
}

// Admit returns the executor of a sender: e, or one with limited rights. If the key of a token is not known, it waits
// for a JWKS, a few seconds or until ctx ends. The error wraps ErrUnauthorized.
func (g *Guard) Admit(ctx context.Context, e *api.Executor, c Credentials) (*api.Executor, error) {
	if c.Key == "" && c.Token != "" && g.Verifies() {
		if err := g.tokens.Verify(ctx, c.Token); err != nil {
			key, text := refusal.Explain(err)
			return nil, refusal.Because(ErrUnauthorized, key, "the request's token is refused: "+text)
		}
		return g.bearer.executor(e), nil
	}
	exec, ok := g.AdmitKey(e, c.Key)
	if !ok {
		return nil, refusal.Because(ErrUnauthorized, g.section+".key", g.explain(c))
	}
	return exec, nil
}

// AdmitKey is Admit for the sender of a key. It does not wait.
func (g *Guard) AdmitKey(e *api.Executor, key string) (exec *api.Executor, ok bool) {
	h, ok := g.find(key)
	if !ok {
		return nil, false
	}
	return h.executor(e), true
}

// Verifies tells that Admit verifies tokens, which may take seconds.
func (g *Guard) Verifies() bool { return g.tokens != nil && !g.insecure }

// find returns the rights of a key; nil for all.
func (g *Guard) find(key string) (*holder, bool) {
	switch {
	case g.insecure:
		return nil, true
	case key == "":
		return nil, false
	}
	digest := sha256.Sum256([]byte(key))
	if len(g.named) == 0 {
		return nil, g.hasKey && subtle.ConstantTimeCompare(digest[:], g.digest[:]) == 1
	}
	var found *holder
	ok := g.hasKey && subtle.ConstantTimeCompare(digest[:], g.digest[:]) == 1
	for i := range g.named { // all of them, so that the time does not tell which one it is
		if n := &g.named[i]; subtle.ConstantTimeCompare(digest[:], n.digest[:]) == 1 {
			found, ok = n.holder, true
		}
	}
	return found, ok
}

func (g *Guard) explain(c Credentials) string {
	key := g.section + ".key"
	switch {
	case c.Key == "" && c.Token != "":
		return "the request has a token, and " + g.section + ".jwks is not enabled"
	case !g.hasKey && len(g.named) == 0 && g.tokens == nil:
		return "the server has no " + key + ", and without one no request is allowed"
	case c.Key == "":
		return "the request has no API key"
	case len(g.named) > 0:
		return "the request's API key is neither " + key + " nor one of " + g.section + ".keys"
	}
	return "the request's API key is not " + key
}

// holder implements api.Rights.
type holder struct {
	all      bool // methods
	methods  map[api.Method]bool
	any      bool // channel
	channels []*glob.Pattern

	noMethod, noChannel error
}

func newHolder(who, at string, methods, channels []string) (*holder, error) {
	h := &holder{
		methods:   make(map[api.Method]bool),
		noMethod:  refusal.Because(api.ErrPermissionDenied, at+".methods", who+" has no right to call the method"),
		noChannel: refusal.Because(api.ErrPermissionDenied, at+".channels", who+" has no right to the channel"),
	}
	if len(methods) == 0 {
		return nil, fmt.Errorf("%s.methods: is required: names of methods, or * for all", at)
	}
	for _, name := range methods {
		m, ok := api.MethodByName(name)
		switch {
		case name == "*":
			h.all = true
		case !ok:
			return nil, fmt.Errorf("%s.methods: %.40q is not a method of the server API", at, name)
		case m == api.MethodBatch:
			return nil, fmt.Errorf("%s.methods: batch needs no right: each of its commands needs the right to its own method", at)
		default:
			h.methods[m] = true
		}
	}
	for _, p := range channels {
		if p == "*" {
			h.any = true
			continue
		}
		g, err := glob.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("%s.channels: pattern %.40q: %w", at, p, err)
		}
		h.channels = append(h.channels, g)
	}
	return h, nil
}

func (h *holder) executor(e *api.Executor) *api.Executor {
	if h == nil || h.all && h.any {
		return e
	}
	return e.With(h)
}

// Method implements api.Rights.
func (h *holder) Method(m api.Method) error {
	if h.all || h.methods[m] {
		return nil
	}
	return h.noMethod
}

// EveryChannel implements api.Rights.
func (h *holder) EveryChannel() error {
	if h.any {
		return nil
	}
	return h.noChannel
}

// Channel implements api.Rights.
func (h *holder) Channel(ch string) error {
	if h.any {
		return nil
	}
	if len(ch) <= maxChannel {
		for _, p := range h.channels {
			if p.Match(ch) {
				return nil
			}
		}
	}
	return h.noChannel
}
