package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/resp"
	"github.com/gyrohq/gyro/logging"
)

func (c *Client) primary(ctx context.Context) (string, error) {
	var failures []error
	first := int(c.next.Load()) // the Sentinel that knew the primary last
	for i := range c.opts.Addresses {
		sentinel := c.opts.Addresses[(first+i)%len(c.opts.Addresses)]
		address, err := c.askSentinel(ctx, sentinel)
		if err == nil {
			c.next.Store(uint32((first + i) % len(c.opts.Addresses)))
			return address, nil
		}
		failures = append(failures, fmt.Errorf("sentinel %s: %w", sentinel, err))
	}
	return "", errors.Join(failures...)
}

// Primary returns where commands have gone last, if Sentinels have told it.
func (c *Client) Primary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// askSentinel leaves time for the other Sentinels.
func (c *Client) askSentinel(ctx context.Context, sentinel string) (string, error) {
	ctx, cancel := answerWithin(ctx, c.askTimeout())
	defer cancel()
	d, err := c.loginSentinel(ctx, sentinel)
	if err != nil {
		return "", err
	}
	defer d.Close()
	var answer resp.Frame
	err = within(ctx, d, func() (err error) {
		answer, err = d.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", c.opts.SentinelMaster)
		return err
	})
	if err != nil {
		return "", err
	}
	if answer.Len != 2 {
		return "", fmt.Errorf("knows no primary named %q", c.opts.SentinelMaster)
	}
	return net.JoinHostPort(string(answer.Items[0]), string(answer.Items[1])), nil
}

func (c *Client) askTimeout() time.Duration {
	return min(c.opts.ConnectTimeout, c.opts.IOTimeout/4)
}

func (c *Client) loginSentinel(ctx context.Context, sentinel string) (*resp.Dialog, error) {
	o := &c.opts
	return c.login(ctx, sentinel, o.SentinelTLS, o.SentinelUser, o.SentinelPassword, o.SentinelClientName)
}

func (c *Client) login(ctx context.Context, address string, config *tls.Config, user, password, name string) (*resp.Dialog, error) {
	raw, err := c.dial(ctx, address, c.dialer(), config)
	if err != nil {
		return nil, err
	}
	d := resp.NewDialog(raw, user, password)
	err = within(ctx, d, func() error {
		err := d.Auth()
		if err == nil && name != "" {
			_, err = d.Do("CLIENT", "SETNAME", name)
		}
		return err
	})
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// watchSentinel drops the connections to a server that was replaced: it may keep its connections, and take writes that
// are lost. It asks when a Sentinel announces a new primary, when a server refuses writes, and every topologyInterval.
func (c *Client) watchSentinel() {
	ticker := time.NewTicker(topologyInterval)
	defer ticker.Stop()
	var outage logging.Outage
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		case <-c.suspect:
		}
		ctx, cancel := answerWithin(context.Background(), c.opts.IOTimeout)
		address, err := c.primary(ctx)
		cancel()
		if err != nil {
			if outage.Fail(err) == 1 {
				c.opts.Logger.Warn("no Sentinel answers", "part", c.opts.Name, "error", err)
			}
			continue
		}
		if failures, since := outage.End(); failures > 0 {
			c.opts.Logger.Info("a Sentinel answers again", "part", c.opts.Name, "failed_at", since, "after_ms", time.Since(since).Milliseconds())
		}
		if c.dropOthers(address) {
			c.opts.Logger.Info("the primary was replaced", "part", c.opts.Name, "primary", address)
		}
		c.release(address)
	}
}

func (c *Client) suspectPrimary() { enginekit.Signal(c.suspect) }

const relistenInterval = time.Second

// listenSentinel listens to each Sentinel: the one that leads a failover announces more than the others.
func (c *Client) listenSentinel(i int) {
	for c.ctx.Err() == nil {
		c.hearSentinel(i) // watchSentinel finds missed announcements
		select {
		case <-c.ctx.Done():
		case <-time.After(relistenInterval):
		}
	}
}

func (c *Client) hearSentinel(i int) {
	login, cancel := answerWithin(c.ctx, c.askTimeout())
	defer cancel()
	d, err := c.loginSentinel(login, c.opts.Addresses[i])
	if err != nil {
		return
	}
	defer d.Close()
	err = within(login, d, func() error {
		_, err := d.Do("SUBSCRIBE", promotes, promoted, aborted, switched)
		if refused := (*resp.ErrorReply)(nil); errors.As(err, &refused) { // the user may hear of new primaries alone
			_, err = d.Do("SUBSCRIBE", switched)
		}
		return err
	})
	if err != nil {
		return
	}
	defer context.AfterFunc(c.ctx, func() { d.Close() })()
	c.suspectPrimary() // for what happened before the subscription
	for {
		message, err := d.Next()
		if err != nil {
			return
		}
		if string(message.Items[0]) == "message" {
			c.announced(i, string(message.Items[1]), string(message.Items[2]))
		}
	}
}
