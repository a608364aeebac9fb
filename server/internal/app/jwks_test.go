package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/server/internal/config"
)

// keyServer is an identity provider with ES256 keys.
type keyServer struct {
	*httptest.Server
	requests atomic.Int64
	answer   atomic.Pointer[http.HandlerFunc] // nil: the set

	mu   sync.Mutex
	set  []string
	keys map[string]*ecdsa.PrivateKey
}

func newKeyServer(t *testing.T) *keyServer {
	p := &keyServer{keys: make(map[string]*ecdsa.PrivateKey)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		if answer := p.answer.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		_, _ = io.WriteString(w, `{"keys":[`+strings.Join(p.set, ",")+`]}`)
	}))
	t.Cleanup(p.Close)
	return p
}

// rotate publishes a new key.
func (p *keyServer) rotate(kid string) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	point := must(key.PublicKey.Bytes())
	b64 := base64.RawURLEncoding.EncodeToString
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[kid] = key
	p.set = append(p.set, fmt.Sprintf(`{"kty":"EC","crv":"P-256","use":"sig","alg":"ES256","kid":%q,"x":%q,"y":%q}`, kid, b64(point[1:33]), b64(point[33:])))
}

func (p *keyServer) token(kid string, claims jwt.MapClaims) string {
	t := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	t.Header["kid"] = kid
	p.mu.Lock()
	defer p.mu.Unlock()
	return `"token":"` + must(t.SignedString(p.keys[kid])) + `"`
}

// A key that is rotated while clients connect refuses none of them, and costs few requests.
func TestRotationInAStormOfConnects(t *testing.T) {
	t.Parallel()
	p := newKeyServer(t)
	p.rotate("k0")
	s := startServer(t, func(cfg *config.Config) { cfg.Client.Token.JWKSPublicEndpoint = p.URL + "/certs" })
	var wg sync.WaitGroup
	const clients = 300
	for i := range clients {
		if i == clients/3 {
			p.rotate("k1") // which signs from now on
		}
		kid := "k" + strconv.Itoa(min(i/(clients/3), 1))
		wg.Go(func() {
			if got, _ := s.dial(nil).Outcome(`"connect":{` + p.token(kid, jwt.MapClaims{"sub": "u" + kid}) + `}`); got != "ok" {
				t.Errorf("client %d with %s: %s", i, kid, got)
			}
		})
	}
	wg.Wait()
	if n := p.requests.Load(); n > 5 {
		t.Errorf("%d requests", n)
	}
}

// While a client waits for keys, others of its loop are served; afterwards it is refused by the
// code of an invalid token, and the log names the key of the configuration.
func TestFetchBlocksNoLoop(t *testing.T) {
	t.Parallel()
	p := newKeyServer(t)
	p.rotate("known")
	s := startServer(t, func(cfg *config.Config) {
		cfg.Client.Token.JWKSPublicEndpoint = p.URL
		open(&cfg.Channel.WithoutNamespace)
	})
	old := s.dial(nil)
	old.Connect(p.token("known", jwt.MapClaims{"sub": "ann"}))
	others := make([]*wstest.Client, 100) // some are on the loop of old
	for i := range others {
		others[i] = s.dial(nil)
	}
	asked := make(chan struct{}, 100)
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	p.answer.Store(&hang)
	p.rotate("new")
	token := p.token("new", jwt.MapClaims{"sub": "bob"})
	var refused atomic.Int32
	var wg sync.WaitGroup
	for _, c := range others {
		wg.Go(func() {
			if got, _ := c.Outcome(`"connect":{` + token + `}`); got != "disconnect 3500" {
				t.Errorf("connection token: %s", got)
			}
			refused.Add(1)
		})
	}
	<-asked
	old.Subscribe("news", "")
	if n := refused.Load(); n > 0 {
		t.Errorf("%d are refused before the keys came", n)
	}
	sub := p.token("new", jwt.MapClaims{"sub": "ann", "channel": "$a"})
	if got, _ := old.Outcome(`"subscribe":{"channel":"$a",` + sub + `}`); got != "error 103" {
		t.Errorf("subscription token: %s", got)
	}
	wg.Wait()
	logs := s.logged()
	if !strings.Contains(logs, "JWKS cannot be fetched") || !strings.Contains(logs, `"key":"client.token.jwks_public_endpoint"`) ||
		strings.Contains(logs, strings.Split(token, ".")[2]) {
		t.Error(logs)
	}
	// Who has a known key connects all the same.
	s.dial(nil).Connect(p.token("known", jwt.MapClaims{"sub": "eve"}))
}

// A reload switches between keys of the configuration and those of JWKS, for both kinds of
// tokens, and forgets no key that was fetched.
func TestReloadJWKS(t *testing.T) {
	t.Parallel()
	p := newKeyServer(t)
	p.rotate("k")
	var cfg config.Token
	edit := func(c *config.Config) {
		open(&c.Channel.WithoutNamespace)
		c.Client.SubscriptionToken.Enabled = true
		if cfg.JWKSPublicEndpoint != "" || cfg.JWKS.Enabled {
			c.Client.Token, c.Client.SubscriptionToken.Token = cfg, cfg
		}
	}
	s := startServer(t, edit)
	token := p.token("k", jwt.MapClaims{"iss": "me", "sub": "ann"})
	connects := func(want string) {
		t.Helper()
		c := s.dial(nil)
		got, _ := c.Outcome(`"connect":{` + token + `}`)
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got == "ok" {
			c.Subscribe("$a", p.token("k", jwt.MapClaims{"iss": "me", "sub": "ann", "channel": "$a"}))
		}
	}
	reload := func(want string) {
		t.Helper()
		if err := s.app.Reload(testConfig(edit)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	connects("disconnect 3500")
	cfg.JWKSPublicEndpoint = p.URL
	reload("")
	connects("ok")
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	p.answer.Store(&refuse)
	cfg = config.Token{JWKS: config.TokenJWKS{Enabled: true, Providers: []config.JWKSProvider{{Name: "me", Enabled: true, Endpoint: p.URL, Issuer: "me"}}}}
	reload("")
	connects("ok")
	cfg.JWKS.Providers[0].Issuer = "other"
	reload("")
	connects("disconnect 3500")
	cfg = config.Token{JWKSPublicEndpoint: "https://idp.example/{{realm}}", IssuerRegex: "(?P<realm>.+)"}
	reload("client.token.jwks_public_endpoint: group realm")
	cfg = config.Token{}
	reload("")
	connects("disconnect 3500")
	if n := p.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}
