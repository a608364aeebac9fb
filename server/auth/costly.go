package auth

import (
	"encoding/base64"
	"encoding/json"
	"runtime"
	"strings"
)

// seats bound how many signatures of private keys are verified at a time. Each keeps a
// processor busy for up to milliseconds, and clients can ask for as many as they like:
// half of the processors are left for everything else.
var seats = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Costly tells whether the signature of a token takes so long to verify that nobody
// else should have to wait for it meanwhile: any but HMAC, if there is a key for it.
func (v *Verifier) Costly(token string) bool {
	k := &v.keys
	if v.skipSignature || k.rsa == nil && k.ecdsa == nil && k.ed25519 == nil {
		return false
	}
	first, _, _ := strings.Cut(token, ".")
	data, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return false // and no token
	}
	var header struct {
		Alg string `json:"alg"`
	}
	return json.Unmarshal(data, &header) == nil && !strings.HasPrefix(header.Alg, "HS")
}

// parse parses a token and verifies its signature, when there is a seat.
func (v *Verifier) parse(token string, c *claims) error {
	if v.Costly(token) {
		seats <- struct{}{}
		defer func() {
			runtime.Gosched() // who waited for the processor comes before the next token
			<-seats
		}()
	}
	_, err := parser.ParseWithClaims(token, c, v.keys.lookup)
	return err
}
