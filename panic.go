package gyro

import (
	"fmt"
	"runtime/debug"

	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
)

// Panicked implements lane.Host.
func (w *worker) Panicked(e session.Effect, reason any, stack []byte) {
	c := (*Client)(w)
	c.node().panicked(c.ID(), reason, stack, "effect", fmt.Sprintf("%T", e))
	c.post(c.crash)
}

// panicked logs a panic that was contained, and counts it.
func (n *Node) panicked(client string, reason any, stack []byte, attrs ...any) {
	n.log.Error("panic", append([]any{"client", client, "panic", fmt.Sprint(reason), "stack", string(stack)}, attrs...)...)
}

// crash ends a client for which something panicked.
func (c *Client) crash() {
	defer func() {
		if r := recover(); r != nil {
			c.node().panicked(c.ID(), r, debug.Stack())
		}
	}()
	c.session.Disconnect(protocol.DisconnectServerError)
}
