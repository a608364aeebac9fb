package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/server/internal/config"
)

// example is the configuration below a heading of docs/tokens.md.
func example(t *testing.T, heading string) config.Token {
	t.Helper()
	page, err := os.ReadFile("../../../docs/tokens.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n### "+heading+"\n")
	_, text, _ = strings.Cut(text, "```json checked\n")
	text, _, _ = strings.Cut(text, "```")
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(config.Options{File: file, RequireFile: true})
	if err != nil || !found {
		t.Fatal(err, found)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return cfg.Client.Token
}

// The examples of the documentation accept what the providers sign. A local server has the keys in the
// providers' form; of the URL, only scheme and host are replaced.
func TestExamples(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	n := base64.RawURLEncoding.EncodeToString(key.N.Bytes())
	const x5 = `"x5c":["MIIC"],"x5t":"abc"`
	for _, tt := range []struct {
		name, path, set string
		claims          string
		user            string
	}{
		{"Auth0", "/.well-known/jwks.json",
			`{"keys":[{"kty":"RSA","use":"sig","n":"%s","e":"AQAB","kid":"K","x5t":"Zm9v",` + x5 + `,"alg":"RS256"},{"kty":"RSA","use":"sig","n":"%[1]s","e":"AQAB","kid":"next","alg":"RS256"}]}`,
			`{"iss":"https://my-tenant.eu.auth0.com/","sub":"auth0|64f","aud":["https://api.example.com","https://my-tenant.eu.auth0.com/userinfo"],"iat":1999999999,"exp":2000086400,"azp":"app","scope":"openid profile"}`, "auth0|64f"},
		{"Keycloak", "/realms/my-realm/protocol/openid-connect/certs",
			`{"keys":[{"kid":"enc","kty":"RSA","alg":"RSA-OAEP","use":"enc","n":"%s","e":"AQAB",` + x5 + `,"x5t#S256":"abc"},{"kid":"K","kty":"RSA","alg":"RS256","use":"sig","n":"%[1]s","e":"AQAB",` + x5 + `,"x5t#S256":"abc"}]}`,
			`{"exp":2000000300,"iat":2000000000,"jti":"1","iss":"https://keycloak.example.com/realms/my-realm","aud":"account","sub":"2f5c","typ":"Bearer","azp":"app","realm_access":{"roles":["user"]},"preferred_username":"ann"}`, "2f5c"},
		{"Firebase", "/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com",
			`{"keys":[{"n":"%s","kty":"RSA","alg":"RS256","kid":"K","e":"AQAB","use":"sig"}]}`,
			`{"iss":"https://securetoken.google.com/my-project","aud":"my-project","auth_time":1999999990,"user_id":"u1","sub":"u1","iat":1999999999,"exp":2000003599,"firebase":{"identities":{},"sign_in_provider":"password"}}`, "u1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != tt.path {
						http.NotFound(w, r)
						return
					}
					fmt.Fprintf(w, tt.set, n)
				})
				cfg := example(t, tt.name)
				u, err := url.Parse(cfg.JWKSPublicEndpoint)
				if err != nil {
					t.Fatal(err)
				}
				cfg.JWKSPublicEndpoint = idpURL + u.Path
				v, err := NewVerifier(cfg, Options{Now: clock, JWKS: newSets(t, server)})
				if err != nil {
					t.Fatal(err)
				}
				var claims jwt.MapClaims
				if err := json.Unmarshal([]byte(tt.claims), &claims); err != nil {
					t.Fatal(err)
				}
				sign := func() string {
					token := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
					token.Header["kid"] = "K"
					text, err := token.SignedString(key)
					if err != nil {
						t.Fatal(err)
					}
					return text
				}
				if got, err := v.VerifyConnect(t.Context(), sign()); err != nil || got.User != tt.user {
					t.Errorf("user %q, error %v", got.User, err)
				}
				claims["aud"] = "another-application"
				if _, err := v.VerifyConnect(t.Context(), sign()); err == nil {
					t.Error("the token of another application was accepted")
				}
			})
		})
	}
	providers := example(t, "Several providers")
	if _, err := NewVerifier(providers, Options{JWKS: newSets(t, nil)}); err != nil || len(providers.JWKS.Providers) != 2 {
		t.Error(err)
	}
}
