package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/quiet"
)

// dialCommands is called by rueidis. With Sentinel the address does not count.
func (c *Client) dialCommands(ctx context.Context, address string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
	t := &trackedConn{client: c, limit: time.Now().Add(c.opts.IOTimeout)}
	ctx, cancel := context.WithDeadlineCause(ctx, t.limit, noAnswer{c.opts.IOTimeout})
	defer cancel()
	var err error
	if !c.opts.Sentinel {
		if t.Conn, err = c.dialNode(ctx, address, c.dialer(), config); err != nil {
			return nil, err
		}
		if err := c.identify(ctx, t.Conn, address); err != nil {
			t.Conn.Close()
			return nil, err
		}
		c.track(t)
		return t, nil
	}
	if t.address, err = c.primary(ctx); err != nil {
		return nil, err
	}
	if t.Conn, err = c.dial(ctx, t.address, c.dialer(), config); err != nil {
		return nil, fmt.Errorf("the primary %s: %w", t.address, err)
	}
	if err := c.identify(ctx, t.Conn, t.address); err != nil {
		t.Conn.Close()
		return nil, fmt.Errorf("the primary %s: %w", t.address, err)
	}
	c.dropOthers(t.address)
	c.track(t)
	return t, nil
}

func (c *Client) track(t *trackedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands[t] = struct{}{}
	if c.opts.Sentinel {
		c.current, c.last = t, t.address
	}
}

// trackedConn is a connection whose handshake ends in time. rueidis removes the deadline after the handshake; until
// then, none is later than limit.
type trackedConn struct {
	net.Conn
	client  *Client
	address string // with Sentinel
	limit   time.Time
	ready   atomic.Bool
	closeCause
	activity
	liveness liveness // under the lock of client
}

func (t *trackedConn) SetDeadline(to time.Time) error {
	if to.IsZero() {
		t.ready.Store(true)
	} else if !t.ready.Load() && to.After(t.limit) {
		to = t.limit
	}
	return t.Conn.SetDeadline(to)
}

const unixScheme = "unix://"

// CheckAddress accepts host:port and unix:///path. Its errors show no address that could hold a password.
func CheckAddress(address string) error {
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		if !strings.HasPrefix(path, "/") {
			return errors.New("address of a unix socket needs a path: unix:///path/of/socket")
		}
		return nil
	}
	if strings.ContainsAny(address, "@/ \t\r\n") {
		return errors.New("address must be host:port without spaces, @ or /")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q must be host:port", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || host == "" {
		return fmt.Errorf("address %q must be host:port with a port from 1 to 65535", address)
	}
	return nil
}

func (c *Client) dial(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		network, address = "unix", path
	}
	raw, err := c.reach(ctx, network, address, dialer)
	if err != nil {
		return nil, err
	}
	raw = quiet.Conn(raw)
	if config == nil {
		return raw, nil
	}
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address) // cannot fail after dialling
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secure, nil
}

func (c *Client) reach(ctx context.Context, network, address string, dialer *net.Dialer) (net.Conn, error) {
	if c.opts.Dial == nil {
		return dialer.DialContext(ctx, network, address)
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.ConnectTimeout)
	defer cancel()
	return c.opts.Dial(ctx, network, address)
}

func (c *Client) dialer() *net.Dialer {
	return &net.Dialer{Timeout: c.opts.ConnectTimeout, KeepAlive: keepAlive}
}

// DialPubSub makes a connection, without a handshake, to a server where messages of PUB/SUB arrive: in a Cluster to
// another node each time, or, if slot is not negative, to its owner.
func (c *Client) DialPubSub(ctx context.Context, slot int) (net.Conn, error) {
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	ctx, cancel := answerWithin(ctx, c.opts.IOTimeout)
	defer cancel()
	address, err := c.pubSubAddress(ctx, slot)
	if err != nil {
		return nil, c.Explain(err)
	}
	raw, err := c.dial(ctx, address, c.dialer(), c.opts.TLS)
	if err != nil {
		return nil, c.Explain(err)
	}
	if !c.opts.Sentinel {
		return raw, nil
	}
	p := &pubSubConn{Conn: raw, client: c, address: address}
	c.mu.Lock()
	c.pubSub[p] = struct{}{}
	c.mu.Unlock()
	return p, nil
}

type pubSubConn struct {
	net.Conn
	client  *Client
	address string
	closeCause
}

func (p *pubSubConn) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	return n, p.explain(err)
}

func (p *pubSubConn) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	return n, p.explain(err)
}

func (p *pubSubConn) Close() error {
	p.client.mu.Lock()
	delete(p.client.pubSub, p)
	p.client.mu.Unlock()
	return p.Conn.Close()
}

// dropOthers closes the connections to other servers than the primary, if there are any.
func (c *Client) dropOthers(primary string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := false
	if c.current != nil && c.current.address != primary {
		c.cut(fmt.Errorf("the primary is %s now", primary))
		found = true
	}
	for p := range c.pubSub {
		if p.address != primary {
			p.setCause(fmt.Errorf("the primary is %s now", primary))
			p.Conn.Close()
			delete(c.pubSub, p)
			found = true
		}
	}
	return found
}

func (c *Client) pubSubAddress(ctx context.Context, slot int) (string, error) {
	switch {
	case c.opts.Sentinel:
		return c.primary(ctx)
	case !c.cluster:
		return c.opts.Addresses[0], nil
	}
	nodes, err := c.slotOwners(ctx)
	if err != nil {
		return "", err
	}
	if slot < 0 {
		return nodes[int(c.next.Add(1)-1)%len(nodes)].address, nil
	}
	for _, node := range nodes {
		if node.from <= int64(slot) && int64(slot) <= node.to {
			return node.address, nil
		}
	}
	return "", fmt.Errorf("no node of the Cluster has slot %d", slot)
}

type slotRange struct {
	from, to int64
	address  string
}

func (c *Client) slotOwners(ctx context.Context) ([]slotRange, error) {
	rows, err := c.redis.Do(ctx, c.redis.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	var ranges []slotRange
	for i := range rows {
		if r, ok := c.slotRange(&rows[i]); ok {
			ranges = append(ranges, r)
		}
	}
	if len(ranges) == 0 {
		return nil, fmt.Errorf("the Cluster has no slots assigned")
	}
	return ranges, nil
}

// slotRange reads a row of CLUSTER SLOTS: first slot, last slot, primary (host, port and more), replicas.
func (c *Client) slotRange(row *rueidis.RedisMessage) (r slotRange, ok bool) {
	fields, err := row.ToArray()
	if err != nil || len(fields) < 3 {
		return r, false
	}
	node, err := fields[2].ToArray()
	if err != nil || len(node) < 2 {
		return r, false
	}
	from, err1 := fields[0].AsInt64()
	to, err2 := fields[1].AsInt64()
	host, err3 := node[0].ToString()
	port, err4 := node[1].AsInt64()
	if err1 != nil || err2 != nil || err4 != nil {
		return r, false
	}
	if err3 != nil || host == "" || host == "?" { // the node that was asked
		host, _, err = net.SplitHostPort(c.opts.Addresses[0])
		if err != nil {
			return r, false
		}
	}
	return slotRange{from, to, net.JoinHostPort(host, fmt.Sprint(port))}, true
}
