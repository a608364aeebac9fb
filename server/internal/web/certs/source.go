package certs

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// source is a part of a TLS object that is read again: a certificate with its key, authorities, or secrets of tickets.
type source struct {
	keys  string // configuration keys, without the key of the object
	files string // paths; empty if all of it is in the configuration
	read  func() ([]byte, error)
	// apply takes over the text. After an error nothing has changed.
	apply   func(text []byte) error
	seen    [sha256.Size]byte // the digest of the last text, or of the error
	refused bool              // the last text is not in force
}

// load reads a source for the first time. The error names the key.
func (s *source) load() error {
	_, err := s.refresh()
	return err
}

// refresh reads the source again. Both results are empty if the text or the error is the same as before, so that a fault
// is reported once, and if there are no file descriptors: the files may be unchanged.
func (s *source) refresh() (changed bool, err error) {
	text, err := s.read()
	loaded := s.seen != [sha256.Size]byte{}
	if loaded && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) {
		return false, nil
	}
	sum := sha256.Sum256(text)
	if err != nil {
		sum = sha256.Sum256([]byte("error: " + err.Error()))
	}
	if sum == s.seen {
		return false, nil
	}
	s.seen = sum
	if err == nil {
		err = s.apply(text)
	}
	s.refused = err != nil
	return err == nil, err
}

type pair struct {
	source
	cert tls.Certificate
	expiry
}

// newPair loads a pair. prefix begins its keys, such as "certificates[0].".
func newPair(prefix string, cert, key config.PEM) (*pair, error) {
	certKey, keyKey := prefix+"cert_pem", prefix+"key_pem"
	if cert == "" || key == "" {
		return nil, fmt.Errorf("%s, %s: both are required by an enabled TLS listener", certKey, keyKey)
	}
	var certText, keyText []byte
	p := &pair{}
	p.source = source{
		keys: certKey + ", " + keyKey,
		read: func() (text []byte, err error) {
			if certText, err = cert.Load(); err != nil {
				return nil, fmt.Errorf("%s: %w", certKey, err)
			}
			if keyText, err = key.Load(); err != nil {
				return nil, fmt.Errorf("%s: %w", keyKey, err)
			}
			return bytes.Join([][]byte{certText, keyText}, []byte{0}), nil
		},
		apply: func([]byte) error {
			made, err := tls.X509KeyPair(certText, keyText)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", certKey, keyKey, err)
			}
			p.cert, p.expiry = made, expiry{}
			return nil
		},
	}
	err := p.load()
	p.files = join(cert.File(), key.File())
	return p, err
}

func newPool(key string, pem config.PEM, to **x509.CertPool) (*source, error) {
	s := &source{
		keys: key,
		read: func() ([]byte, error) {
			text, err := pem.Load()
			if err != nil {
				err = fmt.Errorf("%s: %w", key, err)
			}
			return text, err
		},
		apply: func(text []byte) error {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(text) {
				return fmt.Errorf("%s: there is no certificate in it", key)
			}
			*to = pool
			return nil
		},
	}
	err := s.load()
	s.files = pem.File()
	return s, err
}

func join(names ...string) string {
	var out []string
	for _, name := range names {
		if name != "" {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

// reread refreshes a source and logs the result. section is the key of its object.
func (s *source) reread(section string, log *slog.Logger) (changed bool) {
	changed, err := s.refresh()
	switch {
	case err != nil:
		log.Error("TLS files have changed, but cannot be used: the old ones stay in force",
			"keys", s.keysOf(section), "files", s.files, "error", err)
	case changed:
		log.Info("TLS files have changed and are in force", "keys", s.keysOf(section), "files", s.files)
	}
	return changed
}

func (s *source) keysOf(section string) string {
	return section + "." + strings.ReplaceAll(s.keys, ", ", ", "+section+".")
}

type expiry struct{ warned time.Time }

// renewalDue is two weeks before the end of a certificate, or a quarter of its time if that is less.
func renewalDue(leaf *x509.Certificate) time.Time {
	return leaf.NotAfter.Add(-min(leaf.NotAfter.Sub(leaf.NotBefore)/4, 14*24*time.Hour))
}

// warn logs once a day that a certificate has expired, or that its renewal is due.
func (e *expiry) warn(log *slog.Logger, leaf *x509.Certificate, now time.Time, attrs ...any) {
	if now.Before(renewalDue(leaf)) || now.Sub(e.warned) < 24*time.Hour {
		return
	}
	e.warned = now
	text := "a TLS certificate expires soon and has not been renewed"
	if now.After(leaf.NotAfter) {
		text = "a TLS certificate has expired"
	}
	log.Warn(text, append(attrs, "expires", leaf.NotAfter.UTC().Format(time.RFC3339))...)
}
