//go:build linux

package load

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strconv"
)

// tokens makes the JWT of users u0, u1 and so on.
type tokens struct {
	mac  hash.Hash
	head string
}

func newTokens(secret string) *tokens {
	return &tokens{hmac.New(sha256.New, []byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "."}
}

func (t *tokens) of(user int) string {
	token := append([]byte(t.head), base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"u`+strconv.Itoa(user)+`"}`))...)
	t.mac.Reset()
	t.mac.Write(token)
	return string(token) + "." + base64.RawURLEncoding.EncodeToString(t.mac.Sum(nil))
}
