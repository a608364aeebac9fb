package conn

import (
	"bufio"
	"context"
	"net"
	"strings"
)

// Generation grows whenever a connection for commands is made to a server that may
// hold other data than the one before: another server, or one that was started
// again. It has grown before the first command goes there.
func (c *Client) Generation() uint64 { return c.generation.Load() }

// identify asks the server behind a new connection who it is. If that is not to be
// learned, it counts as another. (If it does not answer at all, the handshake that
// follows will fail.)
func (c *Client) identify(ctx context.Context, raw net.Conn, address string) {
	if !c.cluster {
		address = "" // whoever it is takes the place of the one before
	}
	run := c.runOf(ctx, raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, known := c.servers[address]; !known || before != run || run == "" {
		c.servers[address] = run
		c.generation.Add(1)
	}
}

// runOf is the run ID of a server, which is new with each start. Empty: not known.
func (c *Client) runOf(ctx context.Context, raw net.Conn) string {
	deadline, _ := ctx.Deadline() // dialCommands sets one
	if raw.SetDeadline(deadline) != nil {
		return ""
	}
	q := &query{raw, bufio.NewReader(raw)}
	if c.opts.Password != "" && q.auth(c.opts.User, c.opts.Password) != nil {
		return ""
	}
	info, err := q.do("INFO", "server")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(info[0]) {
		if id, found := strings.CutPrefix(line, "run_id:"); found {
			return strings.TrimSpace(id)
		}
	}
	return ""
}
