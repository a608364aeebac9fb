package auth

import (
	"context"
	"encoding/base64"
	"runtime"
	"strings"
)

// costly bounds the costly signatures that are verified at the same time. Each takes up to milliseconds, and clients can
// send any number, so half of the processors stay free.
var costly = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Costly tells whether a loop should not verify a token: with every algorithm but HMAC, if there is a key of this kind.
// The verification may even fetch the key.
func (v *Verifier) Costly(token string) bool {
	k := &v.keys
	if v.skipSignature || len(v.providers) == 0 && k.rsa == nil && k.ecdsa == nil && k.ed25519 == nil {
		return false
	}
	first, _, _ := strings.Cut(token, ".")
	alg, _, _, err := header(first)
	return err == nil && !strings.HasPrefix(alg, "HS") // an error: it is not a token
}

func (v *Verifier) verifySignature(ctx context.Context, t *parsed, issuer string, audience []string) error {
	alg := t.method.Alg()
	keys, from, err := v.lookup(ctx, t, issuer, audience)
	if err != nil {
		return err
	}
	signature, err := base64.RawURLEncoding.DecodeString(t.signature)
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
	for i, key := range keys {
		if t.method.Verify(t.signed, signature, key) == nil {
			if i > 0 {
				v.previous()
			}
			return nil
		}
	}
	return v.invalid(from, "its signature does not verify: it is signed with another key")
}

// lookup returns the possible keys of the signature, and their configuration key.
func (v *Verifier) lookup(ctx context.Context, t *parsed, issuer string, audience []string) (keys []any, from string, err error) {
	alg := t.method.Alg()
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
