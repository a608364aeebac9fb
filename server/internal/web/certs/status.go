package certs

import (
	"crypto/x509"
	"strings"
	"time"
)

// Status is the state of a source, or with ACME of a host.
type Status struct {
	Key  string // configuration key; the key of the certificate if the private key has another
	Host string // empty but for certificates of ACME
	// Refused: the newest text, or answer of the authority, is not usable; the previous one stays in force.
	Refused bool
	// Expires is the end of the certificate in force; the log warns from RenewalDue on. Both are zero without one.
	Expires, RenewalDue time.Time
}

// Status returns the status of all sources, in the order of the listeners. Any goroutine may call it when the listeners
// are made.
func (s *Store) Status() (list []Status) {
	seen := make(map[string]bool)
	for _, l := range s.listeners {
		if !seen[l.section] { // listeners may share an object
			seen[l.section] = true
			list = append(list, l.status()...)
		}
	}
	if s.authority != nil {
		for _, h := range s.authority.hosts {
			list = append(list, h.status())
		}
	}
	return list
}

func (l *listener) status() (list []Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pairs {
		list = append(list, p.status(l.section).of(p.cert.Leaf))
	}
	for _, s := range l.others {
		list = append(list, s.status(l.section))
	}
	return list
}

func (s *source) status(section string) Status {
	key, _, _ := strings.Cut(s.keys, ", ")
	return Status{Key: section + "." + key, Refused: s.refused}
}

func (h *host) status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := Status{Key: autocertKey, Host: h.name, Refused: h.pause > 0}
	if h.cert == nil {
		return st
	}
	return st.of(h.cert.Leaf)
}

func (s Status) of(leaf *x509.Certificate) Status {
	s.Expires, s.RenewalDue = leaf.NotAfter, renewalDue(leaf)
	return s
}
