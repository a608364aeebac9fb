// Package certs has the TLS of the server's listeners: certificates that are read again when
// their files change, the choice among several, client certificates, session tickets that
// nodes share, and certificates by ACME. docs/tls.md is its contract for users.
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

// period is the time between two looks at the files.
const period = 10 * time.Second

// Protocols of the HTTP listeners, for Store.Config.
var Protocols = []string{"h2", "http/1.1"}

// Store has the certificates that the TLS listeners of a server show, and the authorities whose client certificates
// they accept. Config is called before Run.
type Store struct {
	log       *slog.Logger
	listeners []*listener
	authority *authority // nil without ACME
}

// New returns a store without listeners. autocert is http_server.tls_autocert; errors name its
// keys. It neither asks the authority for anything nor writes.
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

// Config returns the configuration for a listener with the TLS object t, for protocols as ALPN names them; nil if t is
// not enabled. section is the key of the object. Errors name the key.
//
// The result, and each clone of it, asks the store at each handshake, by GetConfigForClient. So handshakes always have
// the newest certificates, authorities and ticket keys, and never wait for a file. Callers must not change
// GetConfigForClient or the ticket keys of the result.
func (s *Store) Config(section string, t config.ListenerTLS, protocols ...string) (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	l, err := newListener(section, t, s.authority, protocols)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", section, err)
	}
	l.publish(time.Now())
	s.listeners = append(s.listeners, l)
	return &tls.Config{MinVersion: l.minVersion, NextProtos: protocols, GetConfigForClient: l.forClient}, nil
}

// PrepareCache makes the directory that keeps certificates of ACME, and checks that it can be
// written. The error names the key.
func (s *Store) PrepareCache() error {
	if s.authority == nil {
		return nil
	}
	if err := s.authority.prepareCache(); err != nil {
		return fmt.Errorf("%s.cache_dir: %w", autocertKey, err)
	}
	return nil
}

// Challenges answers http-01 challenges, and redirects other requests to HTTPS. It is nil if
// the configuration does not want that.
func (s *Store) Challenges() http.Handler {
	if s.authority == nil {
		return nil
	}
	return s.authority.challenges
}

// Run keeps the store up to date, until ctx ends.
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

// Reload looks at the files at once, and tries at once to obtain the certificates that could not be obtained. Errors
// are in the log; after an error the store keeps its certificates.
func (s *Store) Reload() {
	if s.authority != nil {
		s.authority.retry(time.Now())
	}
	s.refresh(time.Now())
}

// refresh reads the files of all listeners again, and takes over changes.
func (s *Store) refresh(now time.Time) {
	for _, l := range s.listeners {
		l.refresh(now, s.log)
	}
	if s.authority != nil {
		s.authority.refresh(now)
	}
}
