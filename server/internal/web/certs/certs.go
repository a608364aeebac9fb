// Package certs has the TLS of the server's listeners (docs/tls.md): certificates that are read again when their files
// change, the choice among several, client certificates, session tickets that nodes share, and certificates by ACME.
package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// period is how often the files are read.
const period = 10 * time.Second

// Protocols are the ALPN protocols of HTTP listeners.
var Protocols = []string{"h2", "http/1.1"}

// Store has the certificates of the TLS listeners, and the authorities of client certificates. Config is called before
// Run.
type Store struct {
	log       *slog.Logger
	listeners []*listener
	authority *authority // nil without ACME
}

// New returns a store without listeners for http_server.tls_autocert. It neither asks the authority nor writes. Errors
// name the key.
func New(autocert config.TLSAutocert, log *slog.Logger) (*Store, error) {
	s := &Store{log: log}
	if !autocert.Enabled {
		return s, nil
	}
	var err error
	if s.authority, err = newAuthority(autocert, log); err != nil {
		return nil, fmt.Errorf("%s.%w", autocertKey, err)
	}
	return s, nil
}

// Config returns the TLS of a listener; nil if t is not enabled. section is the key of t, protocols are for ALPN. Errors
// name the key. The result and its clones ask the store at each handshake, by GetConfigForClient, so handshakes always
// have the newest certificates, authorities and ticket keys, and never wait for a file. Callers must not change
// GetConfigForClient or the ticket keys.
func (s *Store) Config(section string, t config.ListenerTLS, protocols ...string) (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	l, err := newListener(section, t, s.authority, protocols)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", section, err)
	}
	l.replace(time.Now())
	s.listeners = append(s.listeners, l)
	return &tls.Config{MinVersion: l.minVersion, NextProtos: protocols, GetConfigForClient: l.forClient}, nil
}

// PrepareCache creates the directory of ACME certificates, and checks that it can be written. The error names the key.
func (s *Store) PrepareCache() error {
	if s.authority == nil {
		return nil
	}
	if err := s.authority.prepareCache(); err != nil {
		return fmt.Errorf("%s.cache_dir: %w", autocertKey, err)
	}
	return nil
}

// Challenges answers http-01 challenges, and redirects other requests to HTTPS; nil if that is off.
func (s *Store) Challenges() http.Handler {
	if s.authority == nil {
		return nil
	}
	return s.authority.challenges
}

// Run keeps the store up to date until ctx ends.
func (s *Store) Run(ctx context.Context) {
	if len(s.listeners) == 0 {
		return
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		s.refresh(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Reload reads the files at once, and tries again to obtain missing certificates. After an error, which is logged, the
// store keeps its certificates.
func (s *Store) Reload() {
	if s.authority != nil {
		s.authority.retry(time.Now())
	}
	s.refresh(time.Now())
}

func (s *Store) refresh(now time.Time) {
	for _, l := range s.listeners {
		l.refresh(now, s.log)
	}
	if s.authority != nil {
		s.authority.refresh(now)
	}
}
