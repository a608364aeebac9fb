package rig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificate is the certificate of all servers with TLS. No authority has signed it.
type certificate struct {
	tls.Certificate
	spki            string // the hash of its public key; with it, browsers are told to trust it
	certPEM, keyPEM string // files
}

// CertificateFiles makes a certificate for 127.0.0.1 and names in a folder, and returns its file and the file of its
// key.
func CertificateFiles(dir string, names ...string) (cert, key string, err error) {
	c, err := newCertificate(dir, names...)
	if err != nil {
		return "", "", err
	}
	return c.certPEM, c.keyPEM, nil
}

// newCertificate makes what browsers take for WebTransport: ECDSA, and valid for less than 14 days.
func newCertificate(dir string, names ...string) (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: names,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(public)
	c := &certificate{
		Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, spki: base64.StdEncoding.EncodeToString(hash[:]),
		certPEM: filepath.Join(dir, "cert.pem"), keyPEM: filepath.Join(dir, "key.pem"),
	}
	if err := os.WriteFile(c.certPEM, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return nil, err
	}
	return c, os.WriteFile(c.keyPEM, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}
