package postgres

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connections are the configurations of a broker's connections.
type connections struct {
	pool     *pgxpool.Config
	listen   *pgx.ConnConfig // hears notifications; nil without Config.UseNotify
	lead     *pgx.ConnConfig // has the locks of a Fanout; nil without one
	replicas []*pgxpool.Config
}

func (c *Config) connections() (to connections, err error) {
	if to.pool, err = c.poolOf("DSN", c.DSN); err != nil {
		return to, err
	}
	if to.listen, err = c.direct(c.UseNotify); err != nil {
		return to, err
	}
	if to.lead, err = c.direct(c.Fanout != nil); err != nil {
		return to, err
	}
	to.replicas, err = c.replicas()
	return to, err
}

// farewell is how long a connection may take to end.
const farewell = 500 * time.Millisecond

func (c *Config) replicas() (list []*pgxpool.Config, err error) {
	for i, dsn := range c.Replicas {
		name := fmt.Sprintf("Replicas[%d]", i)
		if dsn == "" {
			return nil, fmt.Errorf("postgres: %s is empty", name)
		}
		p, err := c.poolOf(name, dsn)
		if err != nil {
			return nil, err
		}
		p.ConnConfig.ConnectTimeout = min(p.ConnConfig.ConnectTimeout, c.patience())
		list = append(list, p)
	}
	return list, nil
}

// patience is how long a replica may take.
func (c *Config) patience() time.Duration { return min(c.Timeout/4, maxPatience) }

// Errors of poolOf do not show the DSN, which may have a password.
func (c *Config) poolOf(name, dsn string) (*pgxpool.Config, error) {
	p, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("postgres: %s does not parse", name)
	}
	p.MaxConns = int32(c.PoolSize)
	p.MinConns, p.MinIdleConns = 0, 0
	c.prepare(p.ConnConfig)
	// A statement whose time is over is cancelled on the server, so that it is not done later.
	p.ConnConfig.BuildContextWatcherHandler = func(pg *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: pg, DeadlineDelay: time.Second}
	}
	p.BeforeClose = hangUp
	return p, nil
}

// hangUp is called before a connection is closed. The pool would wait 15 s for the server to confirm that, and make no
// other connection meanwhile. A server that cannot be reached does not confirm.
func hangUp(conn *pgx.Conn) {
	c := conn.PgConn().Conn()
	_ = c.SetDeadline(time.Now().Add(farewell))
	if conn.IsClosed() { // after a statement whose time was over
		_ = c.Close()
	}
}

// direct configures a connection that no pooler may share; nil if it is not wanted.
func (c *Config) direct(wanted bool) (*pgx.ConnConfig, error) {
	if !wanted {
		return nil, nil
	}
	l, err := pgx.ParseConfig(cmp.Or(c.NotifyDSN, c.DSN))
	if err != nil {
		return nil, errors.New("postgres: NotifyDSN does not parse")
	}
	c.prepare(l)
	return l, nil
}

func (c *Config) prepare(conn *pgx.ConnConfig) {
	if conn.ConnectTimeout == 0 || conn.ConnectTimeout > c.Timeout {
		conn.ConnectTimeout = c.Timeout
	}
	if c.TLS == nil {
		return
	}
	named := func(host string) *tls.Config {
		t := c.TLS.Clone()
		if t.ServerName == "" {
			t.ServerName = host
		}
		return t
	}
	conn.TLSConfig = named(conn.Host)
	for _, f := range conn.Fallbacks {
		f.TLSConfig = named(f.Host)
	}
}
