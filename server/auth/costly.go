package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"runtime"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// costly has a place for each costly signature that is verified at a time. Each keeps a
// processor busy for up to milliseconds, and clients can send as many as they like: half of the
// processors are left for everything else.
var costly = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Costly tells whether the signature of a token takes so long to verify that a loop should not
// do it: every algorithm but HMAC, if there is a key of this kind.
func (v *Verifier) Costly(token string) bool {
	k := &v.keys
	if v.skipSignature || k.rsa == nil && k.ecdsa == nil && k.ed25519 == nil {
		return false
	}
	first, _, _ := strings.Cut(token, ".")
	data, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return false // not a token
	}
	var header struct {
		Alg string `json:"alg"`
	}
	return json.Unmarshal(data, &header) == nil && !strings.HasPrefix(header.Alg, "HS")
}

// parse parses a token and verifies its signature. For a costly one it waits for a place.
func (v *Verifier) parse(token string, c *claims) error {
	if v.Costly(token) {
		costly <- struct{}{}
		defer func() {
			runtime.Gosched() // other goroutines run before the next token
			<-costly
		}()
	}
	parsed, err := parser.ParseWithClaims(token, c, v.keys.lookup)
	if errors.Is(err, jwt.ErrTokenSignatureInvalid) {
		return v.invalid(keyOf(parsed.Method.Alg()), "its signature does not verify: it is signed with another key")
	}
	return err
}
