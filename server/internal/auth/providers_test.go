package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/auth/jwks"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/httpmem"
	"github.com/gyrohq/gyro/server/internal/testkit/keytest"
)

// idp serves a set with one Ed25519 key at any path below /sets, whose kid is the path.
type idp struct {
	private  map[string]ed25519.PrivateKey // by kid
	sets     map[string]string             // by path
	requests atomic.Int64
}

// idpURL is that of the providers of tests, which are in memory.
const idpURL = "http://127.0.0.1"

func newIDP(t testing.TB, kids ...string) *idp {
	p := &idp{private: make(map[string]ed25519.PrivateKey), sets: make(map[string]string)}
	for _, kid := range kids {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		p.private[kid] = private
		p.sets["/sets/"+kid] = fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","use":"sig","kid":%q,"x":%q}]}`,
			kid, base64.RawURLEncoding.EncodeToString(public))
	}
	return p
}

// ServeHTTP implements http.Handler.
func (p *idp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.requests.Add(1)
	if _, ok := p.sets[r.URL.Path]; !ok {
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = io.WriteString(w, p.sets[r.URL.Path])
}

func (p *idp) sign(t testing.TB, kid string, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(p.private[kid])
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// newSets returns a cache for tests with virtual time: h answers all of its requests.
func newSets(t testing.TB, h http.Handler) *jwks.Cache {
	c := jwks.NewCache(slog.New(slog.DiscardHandler))
	c.Dial = httpmem.Serve(t, h)
	t.Cleanup(c.Close)
	return c
}

// refused checks the reason for a refusal, and that the configuration has the key that it names.
func refused(t *testing.T, err error, key, text string) {
	t.Helper()
	gotKey, gotText := refusal.Explain(errors.Join(err))
	if !errors.Is(err, ErrInvalid) || gotKey != key || !strings.Contains(gotText, text) {
		t.Errorf("error %v of key %q, want %q of key %q", err, gotKey, text, key)
	}
	if key != "" {
		keytest.Check(t, key)
	}
}

func TestJWKSTemplate(t *testing.T) { synctest.Test(t, testJWKSTemplate) }

func testJWKSTemplate(t *testing.T) {
	p := newIDP(t, "eu", "us")
	p.private[""], p.private["de"] = p.private["eu"], p.private["eu"]
	const section, endpoint = "client.token", "client.token.jwks_public_endpoint"
	cfg := config.Token{
		HMACSecretKey: secret, JWKSPublicEndpoint: idpURL + "/sets/{{realm}}",
		IssuerRegex: `^https://idp/(?P<realm>eu|us|gone)$`, AudienceRegex: "^(mobile|web|(?P<realm>us))$",
	}
	v, err := NewVerifier(cfg, Options{Now: clock, JWKS: newSets(t, p)})
	if err != nil {
		t.Fatal(err)
	}
	claims := func(issuer string, audience ...string) jwt.MapClaims {
		return jwt.MapClaims{"sub": "ann", "iss": "https://idp/" + issuer, "aud": audience}
	}
	for _, tt := range []struct {
		token, key, want string
	}{
		{p.sign(t, "eu", claims("eu", "web")), "", ""},
		{p.sign(t, "us", claims("us", "x", "web")), "", ""},
		{p.sign(t, "us", claims("eu", "x", "us", "web")), "", ""}, // the audience's realm counts
		{p.sign(t, "us", claims("eu", "web")), endpoint, "no key with the token's kid"},
		{p.sign(t, "eu", claims("eu")), section + ".audience_regex", "nothing in claim aud matches"},
		{p.sign(t, "eu", claims("../eu", "web")), section + ".issuer_regex", "claim iss does not match"},
		{p.sign(t, "eu", claims("gone", "web")), endpoint, "cannot be fetched"},
		{p.sign(t, "", claims("eu", "web")), endpoint, "no kid"},
		{token(`{"sub":"ann","iss":"https://idp/eu","aud":"web"}`), endpoint, "HMAC"},
	} {
		got, err := v.VerifyConnect(t.Context(), tt.token)
		if tt.want != "" {
			refused(t, err, tt.key, tt.want)
		} else if err != nil || got.User != "ann" {
			t.Error(got, err)
		}
	}
	forged := p.sign(t, "eu", claims("eu", "web"))
	_, err = v.VerifyConnect(t.Context(), forged[:len(forged)-9]+"AAAAAAAAA")
	refused(t, err, endpoint, "signature does not verify")
	before := p.requests.Load()
	if _, err := v.VerifySubscribe(t.Context(), p.sign(t, "eu", jwt.MapClaims{"iss": "https://idp/eu", "aud": "web", "channel": "c"})); err != nil || p.requests.Load() != before {
		t.Errorf("subscription token: %v, %d requests", err, p.requests.Load()-before)
	}
	if !v.Costly(forged) || v.Costly(token(`{}`)) {
		t.Error("a loop must not wait for a JWKS")
	}
	// Nothing is fetched for a signature that is not verified.
	cfg.IssuerRegex, cfg.AudienceRegex = "", ""
	if v, err = NewVerifier(cfg, Options{SkipSignature: true, JWKS: newSets(t, p)}); err != nil {
		t.Fatal(err)
	}
	v.Prefetch()
	if _, err := v.VerifyConnect(t.Context(), forged); err != nil || v.Costly(forged) || p.requests.Load() != before {
		t.Errorf("without signature: %v, %d requests", err, p.requests.Load()-before)
	}
}

func TestJWKSProviders(t *testing.T) { synctest.Test(t, testJWKSProviders) }

func testJWKSProviders(t *testing.T) {
	p := newIDP(t, "a", "b", "web", "app")
	provider := func(name, issuer, audience string) config.JWKSProvider {
		return config.JWKSProvider{Name: name, Enabled: true, Endpoint: idpURL + "/sets/" + name, Issuer: issuer, Audience: audience}
	}
	off := provider("off", "i-off", "")
	off.Enabled = false
	cfg := config.Token{JWKS: config.TokenJWKS{Enabled: true, Providers: []config.JWKSProvider{
		provider("a", "i-a", ""), provider("b", "i-b", ""), provider("web", "i-two", "web"), off, provider("app", "i-two", "app"),
	}}}
	sets := newSets(t, p)
	v, err := NewVerifier(cfg, Options{Now: clock, JWKS: sets, Section: "client.subscription_token"})
	if err != nil {
		t.Fatal(err)
	}
	v.Prefetch()
	const section = "client.subscription_token.jwks.providers"
	for _, tt := range []struct {
		kid, issuer string
		audience    []string
		key, want   string
	}{
		{"a", "i-a", nil, "", ""},
		{"b", "i-b", []string{"any"}, "", ""},
		{"web", "i-two", []string{"x", "web"}, "", ""},
		{"app", "i-two", []string{"app"}, "", ""},
		{"a", "i-b", nil, section + "[1](b).endpoint", "no key with"},
		{"web", "i-two", []string{"app"}, section + "[4](app).endpoint", "no key with"},
		{"web", "i-two", nil, section, "none of them"},
		{"a", "i-off", nil, section, "none of them"},
		{"a", "", nil, section, "none of them"},
	} {
		_, err := v.VerifyConnect(t.Context(), p.sign(t, tt.kid, jwt.MapClaims{"iss": tt.issuer, "aud": tt.audience}))
		if tt.want != "" {
			refused(t, err, tt.key, tt.want)
		} else if err != nil {
			t.Error(err)
		}
	}
	// Another verifier, as after a reload, knows the keys already.
	before := p.requests.Load()
	if v, err = NewVerifier(cfg, Options{Now: clock, JWKS: sets}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.VerifyConnect(t.Context(), p.sign(t, "a", jwt.MapClaims{"iss": "i-a"})); err != nil || p.requests.Load() != before {
		t.Errorf("after a reload: %v, %d requests", err, p.requests.Load()-before)
	}
}

// A key of the set that is for one algorithm verifies no other one.
func TestJWKSAlgorithm(t *testing.T) { synctest.Test(t, testJWKSAlgorithm) }

func testJWKSAlgorithm(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","use":"sig","kid":"k","x":%q,"y":%q},{"kty":"EC","crv":"P-256","use":"sig","alg":"ES512","kid":"odd","x":%[1]q,"y":%[2]q}]}`,
			b64(point[1:33]), b64(point[33:]))
	})
	v, err := NewVerifier(config.Token{JWKSPublicEndpoint: idpURL}, Options{JWKS: newSets(t, server)})
	if err != nil {
		t.Fatal(err)
	}
	sign := func(kid string) string {
		token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{})
		token.Header["kid"] = kid
		text, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if _, err := v.VerifyConnect(t.Context(), sign("k")); err != nil {
		t.Error(err)
	}
	_, err = v.VerifyConnect(t.Context(), sign("odd"))
	refused(t, err, "client.token.jwks_public_endpoint", "another algorithm")
	_, other, _ := strings.Cut(sign("k"), ".")
	_, err = v.VerifyConnect(t.Context(), b64([]byte(`{"alg":"EdDSA","kid":"k"}`))+"."+other)
	refused(t, err, "client.token.jwks_public_endpoint", "another algorithm")
	_, err = v.VerifyConnect(t.Context(), b64([]byte(`{"alg":"none","kid":"k"}`))+"."+other)
	refused(t, err, "", "not supported")
}

func TestJWKSMistakes(t *testing.T) {
	one := func(p config.JWKSProvider) config.Token {
		p.Name, p.Enabled = "one", true
		return config.Token{JWKS: config.TokenJWKS{Enabled: true, Providers: []config.JWKSProvider{p}}}
	}
	const open = "https://idp.example/{{realm}}/certs"
	for _, tt := range []struct {
		cfg  config.Token
		want string
	}{
		{config.Token{JWKSPublicEndpoint: "idp.example/certs"}, "jwks_public_endpoint: not an http"},
		{config.Token{JWKSPublicEndpoint: "https://{{realm}}.example/certs"}, "jwks_public_endpoint: not an http"},
		{config.Token{JWKSPublicEndpoint: "https://idp.example/certs/"}, "jwks_public_endpoint: the path"},
		{config.Token{JWKSPublicEndpoint: open, IssuerRegex: "/(?P<realm>[a-z]+)$"}, "jwks_public_endpoint: the URL has placeholders"},
		{config.Token{JWKSPublicEndpoint: open, AudienceRegex: "(?P<realm>.+)"}, "jwks_public_endpoint: group realm"},
		{config.Token{JWKSPublicEndpoint: open, AudienceRegex: "(?P<realm>.+)", SkipJWKSSafetyCheck: true}, ""},
		{config.Token{JWKSPublicEndpoint: open, IssuerRegex: "(?P<realm>eu|us)"}, ""},
		{config.Token{JWKS: config.TokenJWKS{Enabled: true}}, "jwks.providers: none of them is enabled"},
		{one(config.JWKSProvider{Endpoint: open, Issuer: "i"}), "jwks.providers[0](one).endpoint: has a placeholder"},
		{one(config.JWKSProvider{Endpoint: "x", Issuer: "i"}), "jwks.providers[0](one).endpoint: not an http"},
		{one(config.JWKSProvider{Endpoint: "https://x", Issuer: "i", TLS: config.TLS{Enabled: true, ServerCAPEM: "/nothing"}}), "jwks.providers[0](one).tls.server_ca_pem: "},
	} {
		_, err := NewVerifier(tt.cfg, Options{JWKS: newSets(t, nil)})
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}
