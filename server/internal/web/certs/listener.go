package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/gyrohq/gyro/server/internal/config"
)

// listener is a TLS object of the configuration, which several listeners may share.
type listener struct {
	section    string
	minVersion uint16
	protocols  []string
	authority  *authority // nil: the certificates are pairs
	challenge  *tls.Config

	// current is the configuration for handshakes; its content never changes.
	current atomic.Pointer[tls.Config]

	mu        sync.Mutex // guards all below
	pairs     []*pair
	clientCAs *x509.CertPool // nil: clients need no certificate
	tickets   *tickets       // nil: crypto/tls makes the ticket keys
	others    []*source      // the sources of clientCAs and tickets
}

// maxCertificates bounds the certificates of a listener: a handshake tries one after the other.
const maxCertificates = 256

// newListener loads a TLS object. Errors name the key below the section.
func newListener(section string, t config.ListenerTLS, a *authority, protocols []string) (*listener, error) {
	l := &listener{section: section, minVersion: tls.VersionTLS12, protocols: protocols}
	if t.MinVersion == "1.3" {
		l.minVersion = tls.VersionTLS13
	}
	var err error
	if t.Autocert {
		err = l.setAuthority(a, t)
	} else {
		err = l.loadPairs(t)
	}
	if err != nil {
		return nil, err
	}
	if t.ClientCAPEM != "" {
		authorities, err := newPool("client_ca_pem", t.ClientCAPEM, &l.clientCAs)
		if err != nil {
			return nil, err
		}
		l.others = append(l.others, authorities)
	}
	if t.TicketSecret != "" || t.TicketSecretFile != "" {
		if l.tickets, err = newTickets(section, t); err != nil {
			return nil, err
		}
		l.others = append(l.others, &l.tickets.source)
	}
	return l, nil
}

func (l *listener) loadPairs(t config.ListenerTLS) error {
	if len(t.Certificates) >= maxCertificates {
		return fmt.Errorf("certificates: %d are more than %d", len(t.Certificates), maxCertificates-1)
	}
	first, err := newPair("", t.CertPEM, t.KeyPEM)
	if err != nil {
		return err
	}
	l.pairs = []*pair{first}
	for i, c := range t.Certificates {
		further, err := newPair(fmt.Sprintf("certificates[%d].", i), c.CertPEM, c.KeyPEM)
		if err != nil {
			return err
		}
		l.pairs = append(l.pairs, further)
	}
	return nil
}

func (l *listener) setAuthority(a *authority, t config.ListenerTLS) error {
	switch {
	case a == nil:
		return errors.New("autocert: needs " + autocertKey + ".enabled")
	case t.CertPEM != "" || t.KeyPEM != "" || len(t.Certificates) > 0:
		return errors.New("autocert: excludes cert_pem, key_pem and certificates")
	}
	l.authority = a
	l.challenge = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{acme.ALPNProto}, GetCertificate: a.token, SessionTicketsDisabled: true,
	}
	return nil
}

// forClient is GetConfigForClient of the listener.
func (l *listener) forClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	// The authority validates a host without a client certificate. net/http and the front close connections with this
	// protocol, so it does not help clients without a certificate.
	if l.challenge != nil && len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acme.ALPNProto {
		return l.challenge, nil
	}
	return l.current.Load(), nil
}

func (l *listener) refresh(now time.Time, log *slog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.tickets != nil && l.tickets.due(now)
	for _, p := range l.pairs {
		changed = p.reread(l.section, log) || changed
		p.warn(log, p.cert.Leaf, now, "keys", p.keysOf(l.section), "files", p.files)
	}
	for _, s := range l.others {
		changed = s.reread(l.section, log) || changed
	}
	if changed {
		l.replace(now)
	}
}

// replace replaces the current configuration.
func (l *listener) replace(now time.Time) {
	// Records that begin small only cost CPU where messages share a record.
	c := &tls.Config{MinVersion: l.minVersion, NextProtos: l.protocols, DynamicRecordSizingDisabled: true}
	if l.authority != nil {
		c.GetCertificate = l.authority.certificate
	}
	for _, p := range l.pairs {
		c.Certificates = append(c.Certificates, p.cert)
	}
	if l.clientCAs != nil {
		c.ClientCAs, c.ClientAuth = l.clientCAs, tls.RequireAndVerifyClientCert
	}
	if l.tickets != nil {
		c.SetSessionTicketKeys(l.tickets.keys(now))
	}
	l.current.Store(c)
}
