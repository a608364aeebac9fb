package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// minRSABits: crypto/rsa does not verify with smaller keys.
const minRSABits = 1024

// keys are the configured keys. An algorithm uses keys of its own family only, so a public key is never an HMAC secret.
type keys struct {
	hmac, previous []byte
	validUntil     int64 // of previous, Unix seconds; 0 for no limit
	rsa            *rsa.PublicKey
	ecdsa          *ecdsa.PublicKey
	ecdsaAlg       string // the only algorithm that fits the curve
	ed25519        ed25519.PublicKey
	now            func() time.Time
}

func newKeys(cfg config.Token, now func() time.Time) (k keys, err error) {
	k = keys{
		hmac: []byte(cfg.HMACSecretKey), previous: []byte(cfg.HMACPreviousSecretKey),
		validUntil: cfg.HMACPreviousValidUntil, now: now,
	}
	if k.rsa, err = publicKey[*rsa.PublicKey](cfg.RSAPublicKey, "an RSA key"); err != nil {
		return k, fmt.Errorf("rsa_public_key: %w", err)
	}
	if k.rsa != nil && k.rsa.N.BitLen() < minRSABits {
		return k, fmt.Errorf("rsa_public_key: %d bits are less than %d", k.rsa.N.BitLen(), minRSABits)
	}
	if k.ecdsa, err = publicKey[*ecdsa.PublicKey](cfg.ECDSAPublicKey, "an ECDSA key"); err != nil {
		return k, fmt.Errorf("ecdsa_public_key: %w", err)
	}
	if k.ecdsa != nil {
		if k.ecdsaAlg = curveAlgs[k.ecdsa.Curve]; k.ecdsaAlg == "" {
			return k, errors.New("ecdsa_public_key: the curve is not P-256, P-384 or P-521")
		}
	}
	if k.ed25519, err = publicKey[ed25519.PublicKey](cfg.EdDSAPublicKey, "an Ed25519 key"); err != nil {
		return k, fmt.Errorf("eddsa_public_key: %w", err)
	}
	return k, nil
}

var curveAlgs = map[elliptic.Curve]string{elliptic.P256(): "ES256", elliptic.P384(): "ES384", elliptic.P521(): "ES512"}

// publicKey parses a PEM block PUBLIC KEY (PKIX) or CERTIFICATE; an empty text is the zero K.
func publicKey[K crypto.PublicKey](text, want string) (key K, err error) {
	if text == "" {
		return key, nil
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return key, errors.New("not PEM text")
	}
	var parsed any
	switch block.Type {
	case "PUBLIC KEY":
		parsed, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			parsed = cert.PublicKey
		}
	default:
		return key, errors.New("the PEM block is not of type PUBLIC KEY or CERTIFICATE")
	}
	if err != nil {
		return key, err
	}
	key, ok := parsed.(K)
	if !ok {
		return key, errors.New("not " + want)
	}
	return key, nil
}

// keyOf returns the configuration key for an algorithm; empty if it is not supported.
func keyOf(alg string) string {
	switch alg {
	case "HS256", "HS384", "HS512":
		return "hmac_secret_key"
	case "RS256", "RS384", "RS512":
		return "rsa_public_key"
	case "ES256", "ES384", "ES512":
		return "ecdsa_public_key"
	case "EdDSA":
		return "eddsa_public_key"
	}
	return ""
}

// lookup returns the keys for an algorithm in the order of attempts.
func (k *keys) lookup(alg string) []any {
	switch keyOf(alg) {
	case "hmac_secret_key":
		return k.secrets()
	case "rsa_public_key":
		if k.rsa != nil {
			return []any{k.rsa}
		}
	case "ecdsa_public_key":
		if k.ecdsa != nil && alg == k.ecdsaAlg {
			return []any{k.ecdsa}
		}
	case "eddsa_public_key":
		if k.ed25519 != nil {
			return []any{k.ed25519}
		}
	}
	return nil
}

// secrets returns the HMAC secrets. The previous one is accepted until validUntil by the server's clock, whenever the
// token was issued.
func (k *keys) secrets() []any {
	if len(k.hmac) == 0 {
		return nil
	}
	set := []any{k.hmac}
	if len(k.previous) > 0 && (k.validUntil == 0 || k.now().Unix() <= k.validUntil) {
		set = append(set, k.previous)
	}
	return set
}
