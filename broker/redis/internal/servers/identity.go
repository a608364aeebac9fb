package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/gyrohq/gyro/broker/redis/internal/resp"
)

// Generation grows by NewGeneration, and before the first command to another server, or to one that has restarted.
func (c *Client) Generation() uint64 { return c.generation.Load() }

// NewGeneration is called when a server seems to hold other data than before.
func (c *Client) NewGeneration() { c.generation.Add(1) }

// Replaced tells whether a server has said, since the last call, that it is a replica or loading. Its data may be older
// then.
func (c *Client) Replaced() bool { return c.replaced.Swap(false) }

// identify asks the server of a new connection for its run ID. A server that does not tell counts as another one. After
// an error an answer may still come.
func (c *Client) identify(ctx context.Context, raw net.Conn, address string) error {
	if !c.cluster {
		address = "" // there is one server at a time
	}
	run, err := c.runOf(ctx, raw)
	if err != nil {
		return fmt.Errorf("asking the server who it is: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, known := c.servers[address]; !known || before != run || run == "" {
		c.servers[address] = run
		c.generation.Add(1)
	}
	return nil
}

// runOf returns "" if the server refuses to tell. If that is for a wrong password, the handshake of rueidis will fail.
func (c *Client) runOf(ctx context.Context, raw net.Conn) (id string, err error) {
	err = within(ctx, raw, func() error {
		id, err = c.askRun(resp.NewDialog(raw, c.opts.User, c.opts.Password))
		return err
	})
	return id, err
}

func (c *Client) askRun(d *resp.Dialog) (string, error) {
	var refused *resp.ErrorReply
	if err := d.Auth(); errors.As(err, &refused) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	info, err := d.Do("INFO", "server")
	if err != nil && !errors.As(err, &refused) {
		return "", err
	}
	if c.cluster {
		if err := c.noteOwners(d); err != nil {
			return "", err
		}
	}
	if refused != nil {
		return "", nil
	}
	for line := range strings.Lines(string(info.Text)) {
		if id, found := strings.CutPrefix(line, "run_id:"); found {
			return strings.TrimSpace(id), nil
		}
	}
	return "", nil
}
