package jwks

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// Timeout of a request.
	Timeout = time.Second
	// attempts of a fetch: the second one follows at once.
	attempts = 2
	// maxBody is the largest JWKS, in bytes. Providers send less than 10 KB.
	maxBody = 1 << 20
	// crypto/rsa does not verify with smaller keys; with larger ones it takes too long.
	minRSABits, maxRSABits = 1024, 8192
)

// newClient returns a client without redirects: the configuration alone decides which host to trust.
func (c *Cache) newClient(secure *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: c.Dial, TLSClientConfig: secure, ForceAttemptHTTP2: true,
			DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetch requests a JWKS. skipped says why some keys cannot be used.
func (e *Endpoint) fetch(ctx context.Context, at string) (keys []key, skipped, err error) {
	for range attempts {
		var body []byte
		if body, err = e.get(ctx, at); err == nil {
			return parse(body)
		}
	}
	return nil, nil, err
}

func (e *Endpoint) get(ctx context.Context, at string) ([]byte, error) {
	within := Timeout
	if end, bounded := ctx.Deadline(); bounded { // by Probe
		within = time.Until(end).Round(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, errors.New("the URL is malformed")
	}
	q.Header.Set("Accept", "application/json")
	answer, err := e.client.Do(q)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", within)
		}
		return nil, plain(err)
	}
	defer answer.Body.Close()
	if s := answer.StatusCode; s != http.StatusOK {
		if s >= 300 && s < 400 {
			return nil, fmt.Errorf("status %d: redirects are not followed", s)
		}
		return nil, fmt.Errorf("status %d", s)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("the answer is not complete within %s", within)
	case err != nil:
		return nil, plain(err)
	case len(body) > maxBody:
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxBody)
	}
	return body, nil
}

// plain returns an error without the URL, which may hold a secret, and without port numbers of this host.
func plain(err error) error {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case e.IsNotFound:
			return fmt.Errorf("host %s is not known", e.Name)
		case e.IsTimeout:
			return fmt.Errorf("the lookup of host %s timed out", e.Name)
		}
		return fmt.Errorf("the lookup of host %s failed", e.Name)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s: %w", e.Op, e.Err)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func redacted(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	u.RawQuery = ""
	text := u.Redacted()
	return text[:min(len(text), 256)]
}

type jwk struct {
	Kty string `json:"kty"`
	Kid string `json:"kid"`
	Use string `json:"use"`
	Alg string `json:"alg"`
	Crv string `json:"crv"`
	N   string `json:"n"`
	E   string `json:"e"`
	X   string `json:"x"`
	Y   string `json:"y"`
}

// parse returns the keys for signatures. skipped is about malformed keys; err says that no key is left.
func parse(body []byte) (keys []key, skipped, err error) {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return nil, nil, errors.New("the answer is not the JSON object of a JWKS")
	}
	for i, text := range doc.Keys {
		var j jwk
		if json.Unmarshal(text, &j) != nil {
			skipped = errors.Join(skipped, fmt.Errorf("keys[%d] is not a JSON object with texts", i))
			continue
		}
		if j.Use != "sig" || j.Kid == "" {
			continue
		}
		k := key{id: j.Kid, only: j.Alg}
		if k.public, k.algs, err = j.public(); err != nil {
			skipped = errors.Join(skipped, fmt.Errorf("keys[%d]: %w", i, err))
			continue
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, nil, errors.Join(errors.New(`the JWKS has no usable key with "use": "sig" and a kid`), skipped)
	}
	return keys, skipped, nil
}

func (j *jwk) public() (crypto.PublicKey, []string, error) {
	switch j.Kty {
	case "RSA":
		k, err := j.rsa()
		return k, []string{"RS256", "RS384", "RS512"}, err
	case "EC":
		return j.ecdsa()
	case "OKP":
		x, err := decode(j.X)
		if err != nil || j.Crv != "Ed25519" || len(x) != ed25519.PublicKeySize {
			return nil, nil, errors.New("not an Ed25519 key")
		}
		return ed25519.PublicKey(x), []string{"EdDSA"}, nil
	}
	return nil, nil, errors.New("kty is not RSA, EC or OKP")
}

func (j *jwk) rsa() (*rsa.PublicKey, error) {
	n, errN := decode(j.N)
	e, errE := decode(j.E)
	if errN != nil || errE != nil {
		return nil, errors.New("n or e is not base64url")
	}
	k := &rsa.PublicKey{N: new(big.Int).SetBytes(n)}
	if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
		return nil, fmt.Errorf("an RSA key of %d bits; from %d to %d are supported", bits, minRSABits, maxRSABits)
	}
	exponent := new(big.Int).SetBytes(e)
	if exponent.BitLen() > 31 || exponent.Int64() < 3 || exponent.Int64() > math.MaxInt32 {
		return nil, errors.New("e is not from 3 to 2147483647")
	}
	k.E = int(exponent.Int64())
	return k, nil
}

func (j *jwk) ecdsa() (crypto.PublicKey, []string, error) {
	var curve elliptic.Curve
	var alg string
	switch j.Crv {
	case "P-256":
		curve, alg = elliptic.P256(), "ES256"
	case "P-384":
		curve, alg = elliptic.P384(), "ES384"
	case "P-521":
		curve, alg = elliptic.P521(), "ES512"
	default:
		return nil, nil, errors.New("crv is not P-256, P-384 or P-521")
	}
	x, errX := decode(j.X)
	y, errY := decode(j.Y)
	size := (curve.Params().BitSize + 7) / 8
	if errX != nil || errY != nil || len(x) > size || len(y) > size {
		return nil, nil, errors.New("x or y is not a base64url number of the curve's size")
	}
	point := make([]byte, 1+2*size)
	point[0] = 4 // uncompressed
	copy(point[1+size-len(x):], x)
	copy(point[1+2*size-len(y):], y)
	k, err := ecdsa.ParseUncompressedPublicKey(curve, point)
	if err != nil {
		return nil, nil, errors.New("x and y are not a point of the curve")
	}
	return k, []string{alg}, nil
}

func decode(text string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
}
