package app

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/server/internal/config"
)

// identityTests are the ways to get an identity, or not.
var identityTests = []struct {
	name   string
	edit   func(*config.Client)
	claims jwt.MapClaims // nil for no token
	token  string        // instead of claims
	header http.Header
	want   string
	user   string // seen in presence
}{
	{name: "user", claims: jwt.MapClaims{"sub": "u"}, want: "ok", user: "u"},
	{name: "anonymous token", claims: jwt.MapClaims{}, want: "ok"},
	{name: "null claims", claims: jwt.MapClaims{"sub": "u", "exp": nil, "channel": nil, "info": nil}, want: "ok", user: "u"},
	{name: "expired", claims: jwt.MapClaims{"sub": "u", "exp": unix(-time.Hour)}, want: "error 109"},
	{name: "not yet valid", claims: jwt.MapClaims{"sub": "u", "nbf": unix(time.Hour)}, want: "error 109"},
	{name: "issued in the future", claims: jwt.MapClaims{"sub": "u", "iat": unix(time.Hour)}, want: "ok", user: "u"},
	{name: "expire_at past", claims: jwt.MapClaims{"sub": "u", "expire_at": unix(-time.Hour)}, want: "error 110"},
	{name: "expire_at past, insecure", edit: func(c *config.Client) { c.Insecure = true },
		claims: jwt.MapClaims{"sub": "u", "expire_at": unix(-time.Hour)}, want: "ok", user: "u"},
	{name: "sub is a number", claims: jwt.MapClaims{"sub": 42}, want: "disconnect 3500"},
	{name: "expire_at is a fraction", claims: jwt.MapClaims{"expire_at": 1.5}, want: "disconnect 3500"},
	{name: "bad base64", claims: jwt.MapClaims{"b64info": "!"}, want: "disconnect 3500"},
	{name: "subscription token", claims: jwt.MapClaims{"sub": "u", "channel": "a"}, want: "disconnect 3500"},
	{name: "unknown namespace", claims: jwt.MapClaims{"sub": "u", "channels": []string{"no:a"}}, want: "error 102"},
	{name: "not a token", token: "x", want: "disconnect 3500"},
	{name: "not a token, insecure", edit: func(c *config.Client) { c.Insecure = true }, token: "x", want: "disconnect 3500"},
	{name: "no token", want: "disconnect 3501"},
	{name: "no token, allowed", edit: func(c *config.Client) { c.AllowAnonymousConnect = true }, want: "ok"},
	{name: "no token, insecure", edit: func(c *config.Client) { c.Insecure = true }, want: "ok"},
	{name: "anonymous token disallowed", edit: func(c *config.Client) { c.DisallowAnonymousTokens = true },
		claims: jwt.MapClaims{}, want: "disconnect 3507"},
	{name: "user token with these disallowed", edit: func(c *config.Client) { c.DisallowAnonymousTokens = true },
		claims: jwt.MapClaims{"sub": "u"}, want: "ok", user: "u"},
	{name: "user_id_claim", edit: func(c *config.Client) { c.Token.UserIDClaim = "uid" },
		claims: jwt.MapClaims{"sub": "u", "uid": 42}, want: "ok", user: "42"},
	{name: "audience", edit: func(c *config.Client) { c.Token.Audience = "a" },
		claims: jwt.MapClaims{"sub": "u", "aud": []string{"b", "a"}}, want: "ok", user: "u"},
	{name: "wrong audience", edit: func(c *config.Client) { c.Token.Audience = "a" },
		claims: jwt.MapClaims{"sub": "u", "aud": "b"}, want: "disconnect 3500"},
	{name: "no audience", edit: func(c *config.Client) { c.Token.AudienceRegex = "a" },
		claims: jwt.MapClaims{"sub": "u"}, want: "disconnect 3500"},
	{name: "issuer pattern", edit: func(c *config.Client) { c.Token.IssuerRegex = "b+" },
		claims: jwt.MapClaims{"sub": "u", "iss": "abba"}, want: "ok", user: "u"},
	{name: "wrong issuer", edit: func(c *config.Client) { c.Token.Issuer = "a" },
		claims: jwt.MapClaims{"sub": "u", "iss": "b"}, want: "disconnect 3500"},
	{name: "header", edit: func(c *config.Client) { c.UserIDHTTPHeader = "X-User" },
		header: http.Header{"X-User": {"h"}}, want: "ok", user: "h"},
	{name: "empty header", edit: func(c *config.Client) { c.UserIDHTTPHeader = "X-User" },
		header: http.Header{"X-User": {""}}, want: "disconnect 3501"},
	{name: "header that is not configured", header: http.Header{"X-User": {"h"}}, want: "disconnect 3501"},
	{name: "token before header", edit: func(c *config.Client) { c.UserIDHTTPHeader = "X-User" },
		claims: jwt.MapClaims{"sub": "u"}, header: http.Header{"X-User": {"h"}}, want: "ok", user: "u"},
	{name: "anonymous before header", edit: func(c *config.Client) {
		c.UserIDHTTPHeader, c.AllowAnonymousConnect = "X-User", true
	}, header: http.Header{"X-User": {"h"}}, want: "ok"},
	{name: "wrong signature accepted", edit: func(c *config.Client) {
		c.Token.HMACSecretKey, c.SkipTokenSignature = "another", true
	}, claims: jwt.MapClaims{"sub": "u"}, want: "ok", user: "u"},
	{name: "expired without signature", edit: func(c *config.Client) { c.SkipTokenSignature = true },
		claims: jwt.MapClaims{"sub": "u", "exp": unix(-time.Hour)}, want: "error 109"},
}

// open allows everything: for tests that ask who a client is.
func open(o *config.ChannelOptions) {
	o.Presence, o.JoinLeave = true, true
	o.HistorySize, o.HistoryTTL = 10, time.Minute
	o.AllowSubscribeForClient, o.AllowSubscribeForAnonymous = true, true
	o.AllowPresenceForClient, o.AllowPresenceForAnonymous = true, true
	o.AllowPublishForClient, o.AllowPublishForAnonymous = true, true
	o.AllowHistoryForClient, o.AllowHistoryForAnonymous = true, true
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	for _, tt := range identityTests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, func(cfg *config.Config) {
				addNamespace(cfg, "open", open)
				if tt.edit != nil {
					tt.edit(&cfg.Client)
				}
			})
			token := tt.token
			if tt.claims != nil {
				token = s.token(tt.claims)
			}
			c := s.dial(tt.header)
			got, reply := c.Outcome(`"connect":{"token":"` + token + `"}`)
			if got != tt.want {
				t.Fatalf("got %s, want %s", got, tt.want)
			}
			if got != "ok" {
				return
			}
			if reply.Connect.Expires {
				t.Error("expires")
			}
			c.Subscribe("open:a", "")
			who := c.Do(`"presence":{"channel":"open:a"}`).Presence.Presence[reply.Connect.Client]
			if who == nil || who.User != tt.user {
				t.Errorf("user is %+v, want %q", who, tt.user)
			}
		})
	}
}

func publicPEM(key any) string {
	der := must(x509.MarshalPKIXPublicKey(key))
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// TestTokenKeys connects by every algorithm, against one server that knows the
// keys of all families.
func TestTokenKeys(t *testing.T) {
	t.Parallel()
	rsaKey := must(rsa.GenerateKey(rand.Reader, 2048))
	ecKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	ecOther := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, func(cfg *config.Config) {
		k := &cfg.Client.Token
		k.HMACPreviousSecretKey = "previous-secret"
		k.RSAPublicKey, k.ECDSAPublicKey, k.EdDSAPublicKey = publicPEM(&rsaKey.PublicKey), publicPEM(&ecKey.PublicKey), publicPEM(edPublic)
	})
	s.secrets = append(s.secrets, "previous-secret")
	for _, tt := range []struct {
		method jwt.SigningMethod
		key    any
		want   string
	}{
		{jwt.SigningMethodHS256, []byte(tokenSecret), "ok"},
		{jwt.SigningMethodHS384, []byte(tokenSecret), "ok"},
		{jwt.SigningMethodHS512, []byte(tokenSecret), "ok"},
		{jwt.SigningMethodHS256, []byte("previous-secret"), "ok"},
		{jwt.SigningMethodHS256, []byte("another-secret"), "disconnect 3500"},
		{jwt.SigningMethodHS256, []byte(publicPEM(&rsaKey.PublicKey)), "disconnect 3500"}, // algorithm confusion
		{jwt.SigningMethodRS256, rsaKey, "ok"},
		{jwt.SigningMethodRS384, rsaKey, "ok"},
		{jwt.SigningMethodRS512, rsaKey, "ok"},
		{jwt.SigningMethodPS256, rsaKey, "disconnect 3500"},
		{jwt.SigningMethodES256, ecKey, "ok"},
		{jwt.SigningMethodES384, ecOther, "disconnect 3500"},
		{jwt.SigningMethodEdDSA, edKey, "ok"},
		{jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "disconnect 3500"},
	} {
		token := s.sign(tt.method, tt.key, jwt.MapClaims{"sub": "u"})
		if got, _ := s.dial(nil).Outcome(`"connect":{"token":"` + token + `"}`); got != tt.want {
			t.Errorf("%s with %T: got %s, want %s", tt.method.Alg(), tt.key, got, tt.want)
		}
	}
	// The same claims under another signature.
	token := s.token(jwt.MapClaims{"sub": "u"})
	if got, _ := s.dial(nil).Outcome(`"connect":{"token":"` + token[:len(token)-4] + `AAAA"}`); got != "disconnect 3500" {
		t.Errorf("changed signature: got %s", got)
	}
}

// TestNoKeys: the server starts without any key, and takes no token.
func TestNoKeys(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) { cfg.Client.Token = config.Token{} })
	if got, _ := s.dial(nil).Outcome(`"connect":{` + s.tokenField(jwt.MapClaims{}) + `}`); got != "disconnect 3500" {
		t.Errorf("got %s", got)
	}
}
