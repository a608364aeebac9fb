package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/broker/enginekit"
)

// options of the NATS client. It reconnects by itself, except after errors such as errors of the protocol; then the
// monitor connects anew.
func (b *Broker) options() (o natsio.Options, err error) {
	o = natsio.GetDefaultOptions()
	o.Servers = b.cfg.servers()
	o.Name = "gyro"
	o.User, o.Password, o.Token = b.cfg.User, b.cfg.Password, b.cfg.Token
	o.Timeout = b.cfg.DialTimeout
	o.FlusherTimeout = b.cfg.WriteTimeout
	o.CustomDialer = b.dialer
	o.SkipHostLookup = true // the dialer does it, with a timeout
	o.MaxReconnect = -1
	o.IgnoreAuthErrorAbort = true
	o.CustomReconnectDelayCB = enginekit.ConnectPause
	o.ReconnectBufSize = -1 // publishing fails without a connection
	o.PingInterval = 10 * time.Second
	if b.cfg.TLS != nil {
		o.Secure, o.TLSConfig = true, b.cfg.TLS.Clone()
	}
	o.DisconnectedErrCB = func(_ *natsio.Conn, err error) {
		b.dialer.failed(err)
		if !b.closed.Load() {
			_, _, err = b.dialer.state()
			b.log.Warn("connection lost", "engine", b.part, "error", err)
		}
	}
	o.ReconnectErrCB = func(_ *natsio.Conn, err error) { b.dialer.failed(err) }
	o.ReconnectedCB = func(*natsio.Conn) { b.monitor.wake() }
	o.DiscoveredServersCB = func(*natsio.Conn) { b.monitor.wake() }
	o.ClosedCB = func(c *natsio.Conn) {
		b.dialer.failed(c.LastError())
		b.monitor.wake()
	}
	o.AsyncErrorCB = b.clientError
	if b.cfg.CredentialsFile != "" {
		err = natsio.UserCredentials(b.cfg.CredentialsFile)(&o)
	}
	return o, err
}

// clientError handles errors that the NATS client returns to no caller.
func (b *Broker) clientError(_ *natsio.Conn, sub *natsio.Subscription, err error) {
	switch {
	case errors.Is(err, natsio.ErrPermissionViolation):
		if news := b.flusher.report(err); news != "" && b.monitor.mayLog() {
			b.log.Error("the server does not permit a subject", "engine", b.part, "error", err)
		}
	case errors.Is(err, natsio.ErrSlowConsumer) && sub != nil:
		b.monitor.overflowed(sub)
	default:
		b.dialer.failed(err)
		b.log.Warn("client error", "engine", b.part, "error", err)
	}
}

// connectAtStart tries to connect for Config.StartTimeout, at least once.
func (b *Broker) connectAtStart(ctx context.Context) (conn *natsio.Conn, number uint64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.lifetime, cancel)()
	r := enginekit.Retry{Timeout: b.cfg.StartTimeout, Failed: func(err error) {
		b.log.Warn("cannot connect, trying again", "engine", b.part, "error", err)
	}}
	err = r.Do(ctx, func(context.Context) (err error) {
		conn, number, err = b.connect()
		return err
	})
	if err != nil && b.lifetime.Err() != nil {
		err = errClosed
	}
	return conn, number, err
}

func (b *Broker) connect() (*natsio.Conn, uint64, error) {
	o, err := b.options()
	if err != nil {
		return nil, 0, err
	}
	conn, err := o.Connect()
	if err != nil {
		if errors.Is(err, natsio.ErrNoServers) {
			if _, _, why := b.dialer.state(); why != nil {
				err = why
			}
		}
		return nil, 0, err
	}
	return conn, b.dialer.number.Load(), nil
}

// restore makes missing subscriptions on the connection with this number, and waits until events flow.
func (b *Broker) restore(number uint64) error {
	conn := b.conn.Load()
	if err := b.monitor.subscribe(conn); err != nil {
		return err
	}
	for i := range b.stripes {
		if err := b.restoreStripe(&b.stripes[i], conn); err != nil {
			return err
		}
	}
	since := b.flusher.begin()
	b.monitor.send(conn)
	if err := b.flusher.flush(context.Background()); err != nil {
		return err
	}
	err := errors.Join(b.flusher.denies(toSubscribe, b.monitor.subject, since), b.flusher.denies(toPublish, b.monitor.subject, since))
	if err == nil && !b.dialer.setFlowing(number) {
		err = errors.New("connection was lost again")
	}
	return err
}

// restoreStripe subscribes the channels of a connection that the NATS client gave up. When the client reconnects, it
// restores them itself.
func (b *Broker) restoreStripe(s *stripe, conn *natsio.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch, old := range s.subs {
		if old.IsValid() {
			continue
		}
		sub, err := conn.ChanSubscribe(old.Subject, b.receiver.messages)
		if err != nil {
			return fmt.Errorf("subscribing to channel %.100q again: %w", ch, err)
		}
		b.names.remove(old)
		b.names.add(sub, ch)
		s.subs[ch] = sub
	}
	return nil
}
