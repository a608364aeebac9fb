package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"runtime"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// costly has a place for each costly signature that is verified at a time. Each keeps a
// processor busy for up to milliseconds, and clients can send as many as they like: half of the
// processors are left for everything else.
var costly = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Costly tells whether the signature of a token takes so long to verify that a loop should not
// do it: every algorithm but HMAC, if there is a key of this kind. The key may even have to be
// fetched first.
func (v *Verifier) Costly(token string) bool {
	k := &v.keys
	if v.skipSignature || len(v.providers) == 0 && k.rsa == nil && k.ecdsa == nil && k.ed25519 == nil {
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

// verifySignature verifies the signature of a token of three parts. For a costly one it waits for
// a place.
func (v *Verifier) verifySignature(ctx context.Context, t *jwt.Token, parts []string, issuer string, audience []string) error {
	alg := t.Method.Alg()
	keys, from, err := v.lookup(ctx, t, issuer, audience)
	if err != nil {
		return err
	}
	signature, err := parser.DecodeSegment(parts[2])
	if err != nil {
		return errMalformed
	}
	if !strings.HasPrefix(alg, "HS") {
		costly <- struct{}{}
		defer func() {
			runtime.Gosched() // other goroutines run before the next token
			<-costly
		}()
	}
	signed := parts[0] + "." + parts[1]
	for _, key := range keys {
		if t.Method.Verify(signed, signature, key) == nil {
			return nil
		}
	}
	return v.invalid(from, "its signature does not verify: it is signed with another key")
}

// lookup returns the keys that the signature may be made with, and the configuration key that they
// come from.
func (v *Verifier) lookup(ctx context.Context, t *jwt.Token, issuer string, audience []string) (keys []any, from string, err error) {
	alg := t.Method.Alg()
	if from = keyOf(alg); from == "" {
		return nil, "", errAlgorithm
	}
	if len(v.providers) > 0 {
		return v.provided(ctx, t, issuer, audience)
	}
	if keys = v.keys.lookup(alg); len(keys) == 0 {
		err = v.invalid(from, "there is no key for its algorithm")
	}
	return keys, from, err
}
