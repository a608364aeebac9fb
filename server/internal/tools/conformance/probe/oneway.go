package probe

import (
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// SectionOneWay is the section on one-way transports.
const SectionOneWay = "protocol-rules.md#one-way-transports"

// Ask opens a one-way connection with a connect request.
func (t *Probe) Ask(r *protocol.ConnectRequest) *Client {
	hello, err := r.AppendJSON(nil)
	if err != nil {
		t.Fail("a connect request cannot be encoded: %v", err)
	}
	return t.OpenFrame(hello)
}

// Listen opens a one-way connection, and takes the connect push.
func (t *Probe) Listen() *Client {
	c := t.Ask(t.Hi().Connect)
	r, err := c.Next(c.Timeout)
	switch {
	case err != nil:
		c.Broke(err, "waiting for the connect push")
	case r.Push == nil || r.Push.Connect == nil:
		panic(Failure{SectionOneWay, "the first message is no connect push"})
	}
	hello := r.Push.Connect
	c.ID, c.Hello = hello.Client, &protocol.ConnectResult{Client: hello.Client, Ping: hello.Ping, Pong: hello.Pong, Session: hello.Session, Node: hello.Node}
	return c
}

// Quiet fails if something but a ping comes within a moment.
func (c *Client) Quiet(what string) {
	for deadline := time.Now().Add(2 * c.Moment); time.Now().Before(deadline); {
		if r, err := c.Take(time.Until(deadline)); err == nil && r != nil {
			c.Fail("%s comes", what)
		}
	}
}
