package services

import (
	"crypto/tls"

	"github.com/jackc/pgx/v5"
)

// SecurePostgres makes connections use TLS, with the host of each address as the name of the server unless there is
// another one. If secure is nil, the DSN decides.
func SecurePostgres(c *pgx.ConnConfig, secure *tls.Config) {
	if secure == nil {
		return
	}
	named := func(host string) *tls.Config {
		t := secure.Clone()
		if t.ServerName == "" {
			t.ServerName = host
		}
		return t
	}
	c.TLSConfig = named(c.Host)
	for _, f := range c.Fallbacks {
		f.TLSConfig = named(f.Host)
	}
}
