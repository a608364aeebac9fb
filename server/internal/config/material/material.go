// Package material loads files, certificates and keys that a configuration names.
package material

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
)

// PEM is PEM text, its base64, or the path of a file with it, tried in this order.
type PEM string

// Load returns the PEM text. Its error does not quote the value.
func (p PEM) Load() ([]byte, error) {
	if text := p.text(); text != nil {
		return text, nil
	}
	data, err := ReadFile(string(p))
	if err != nil {
		if path := new(os.PathError); errors.As(err, &path) {
			err = path.Err // without the path, which may be a mangled key
		}
		return nil, fmt.Errorf("neither PEM text, nor base64 of it, nor a readable file: %w", err)
	}
	if !isPEM(data) {
		return nil, errors.New("the file does not hold PEM text")
	}
	return data, nil
}

// File returns the path that Load reads; empty if it reads none. If Load has never succeeded, it may be a mangled key.
func (p PEM) File() string {
	if p.text() != nil {
		return ""
	}
	return string(p)
}

// text returns PEM text that is not in a file.
func (p PEM) text() []byte {
	if isPEM([]byte(p)) {
		return []byte(p)
	}
	if data, err := base64.StdEncoding.DecodeString(string(p)); err == nil && isPEM(data) {
		return data
	}
	return nil
}

func isPEM(data []byte) bool {
	block, _ := pem.Decode(data)
	return block != nil
}

// TLS is the TLS object of every section.
type TLS struct {
	Enabled            bool   `key:"enabled" doc:"Use TLS. The other keys of the section have no effect without it."`
	CertPEM            PEM    `key:"cert_pem" doc:"Certificate chain. Needs key_pem."`
	KeyPEM             PEM    `key:"key_pem" opt:"secret" doc:"Private key of cert_pem."`
	ServerCAPEM        PEM    `key:"server_ca_pem" doc:"Certificates of authorities by which a client verifies the server. Empty: those of the system."`
	ClientCAPEM        PEM    `key:"client_ca_pem" doc:"Certificates of authorities by which a server verifies clients. If it is set, clients without a valid certificate are refused."`
	InsecureSkipVerify bool   `key:"insecure_skip_verify" doc:"As a client, do not verify the certificate of the server."`
	ServerName         string `key:"server_name" doc:"As a client, the name that the certificate of the server must have. Empty: the name in the address."`
}

// ClientConfig returns the TLS of connections to another service, TLS 1.2 at least; nil if it is not enabled. Errors
// name the key below the section.
func (t TLS) ClientConfig() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	if (t.CertPEM == "") != (t.KeyPEM == "") {
		return nil, errors.New("cert_pem, key_pem: one is set without the other")
	}
	if t.CertPEM != "" {
		pair, err := t.keyPair()
		if err != nil {
			return nil, err
		}
		out.Certificates = []tls.Certificate{pair}
	}
	if t.ServerCAPEM != "" {
		pool, err := t.ServerCAPEM.pool()
		if err != nil {
			return nil, fmt.Errorf("server_ca_pem: %w", err)
		}
		out.RootCAs = pool
	}
	return out, nil
}

func (t TLS) keyPair() (tls.Certificate, error) {
	cert, err := t.CertPEM.Load()
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cert_pem: %w", err)
	}
	key, err := t.KeyPEM.Load()
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("key_pem: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cert_pem, key_pem: %w", err)
	}
	return pair, nil
}

func (p PEM) pool() (*x509.CertPool, error) {
	data, err := p.Load()
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, errors.New("there is no certificate in it")
	}
	return pool, nil
}

// Limits of configuration and .env files, and of files with a secret, in bytes.
const (
	maxFileSize   = 16 << 20
	maxSecretSize = 64 << 10
)

// ReadFile reads a file of up to 16 MiB.
func ReadFile(file string) ([]byte, error) { return readFile(file, maxFileSize) }

// ReadSecret reads a file of up to 64 KiB.
func ReadSecret(file string) ([]byte, error) { return readFile(file, maxSecretSize) }

func readFile(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, limit)
	}
	return data, nil
}
