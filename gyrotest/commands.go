package gyrotest

import "github.com/gyrohq/gyro/protocol"

// Do sends a command, which must succeed, and returns its reply.
func (c *Client) Do(cmd *protocol.Command) *protocol.Reply {
	c.tb.Helper()
	r, err := c.Try(cmd)
	if err != nil {
		c.tb.Fatalf("gyrotest: %s: %v", text(cmd), err)
	}
	return r
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Connect connects, which must succeed, as a client's first command. r has the token, data and so on, or is nil.
func (c *Client) Connect(r *protocol.ConnectRequest) *protocol.ConnectResult {
	c.tb.Helper()
	request := orZero(r)
	return c.Do(&protocol.Command{Connect: &request}).Connect
}

// Subscribe subscribes to a channel, which must succeed. r has the client's further wishes (a token, a position to
// recover from), or is nil.
func (c *Client) Subscribe(ch string, r *protocol.SubscribeRequest) *protocol.SubscribeResult {
	c.tb.Helper()
	request := orZero(r)
	request.Channel = ch
	return c.Do(&protocol.Command{Subscribe: &request}).Subscribe
}

// Unsubscribe ends a subscription of the client, which must succeed.
func (c *Client) Unsubscribe(ch string) {
	c.tb.Helper()
	c.Do(&protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: ch}})
}

// Publish publishes into a channel, which must succeed. data is JSON on a JSON connection.
func (c *Client) Publish(ch, data string) {
	c.tb.Helper()
	c.Do(&protocol.Command{Publish: &protocol.PublishRequest{Channel: ch, Data: []byte(data)}})
}

// RPC calls a method, which must succeed. data is JSON on a JSON connection; empty means none.
func (c *Client) RPC(method, data string) []byte {
	c.tb.Helper()
	return c.Do(&protocol.Command{RPC: &protocol.RPCRequest{Method: method, Data: []byte(data)}}).RPC.Data
}

// Message sends a message without an answer, to the handler Message. data is JSON on a JSON connection.
func (c *Client) Message(data string) {
	c.tb.Helper()
	c.sendCommand(&protocol.Command{Send: &protocol.SendRequest{Data: []byte(data)}})
}

// Presence returns the clients in a channel by their IDs. The command must succeed.
func (c *Client) Presence(ch string) map[string]*protocol.ClientInfo {
	c.tb.Helper()
	return c.Do(&protocol.Command{Presence: &protocol.PresenceRequest{Channel: ch}}).Presence.Presence
}

// History reads a channel's history, which must succeed. r says which part; nil asks for the position alone.
func (c *Client) History(ch string, r *protocol.HistoryRequest) *protocol.HistoryResult {
	c.tb.Helper()
	request := orZero(r)
	request.Channel = ch
	return c.Do(&protocol.Command{History: &request}).History
}

// Publication waits for the next publication in a channel. Other pushes stay for the methods that want them.
func (c *Client) Publication(ch string) *protocol.Publication {
	c.tb.Helper()
	return c.push("a publication in "+ch, func(p *protocol.Push) bool { return p.Channel == ch && p.Pub != nil }).Pub
}

// Join waits in the same way for the next client that joins a channel.
func (c *Client) Join(ch string) *protocol.ClientInfo {
	c.tb.Helper()
	return c.push("a join in "+ch, func(p *protocol.Push) bool { return p.Channel == ch && p.Join != nil }).Join.Info
}

// Leave waits in the same way for the next client that leaves a channel.
func (c *Client) Leave(ch string) *protocol.ClientInfo {
	c.tb.Helper()
	return c.push("a leave in "+ch, func(p *protocol.Push) bool { return p.Channel == ch && p.Leave != nil }).Leave.Info
}
