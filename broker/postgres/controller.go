package postgres

import (
	"context"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// Controller carries control messages for nodes whose broker cannot, or should not. It uses the table of control
// messages alone. Nodes on a Broker of this package need none. Any goroutine may call the methods.
type Controller struct{ b *Broker }

// NewController returns a controller that is not connected yet. It checks the fields about streams and maps, and does
// not use them. An error names the field.
func NewController(cfg Config) (*Controller, error) {
	b, err := New(cfg)
	if err != nil {
		return nil, err
	}
	b.alone = true
	return &Controller{b}, nil
}

// Describe implements broker.Engine.
func (c *Controller) Describe() broker.Traits {
	return broker.Traits{Name: "postgres", Health: c.b.Health}
}

// Connect connects to PostgreSQL like Broker.Connect.
func (c *Controller) Connect(ctx context.Context) error { return c.b.Connect(ctx) }

// RunControl implements broker.Controller. It connects like Connect, if that was not called.
func (c *Controller) RunControl(node string, handle func(data []byte)) error {
	if err := c.b.RunControl(node, handle); err != nil {
		return err
	}
	return c.b.Run(noEvents{})
}

// PublishControl implements broker.Controller. It returns when the message is committed.
func (c *Controller) PublishControl(ctx context.Context, node string, data []byte) error {
	return c.b.PublishControl(ctx, node, data)
}

// Close frees everything. No message arrives after it returned. Closing again is fine. If ctx ends before calls under
// way do, it returns the context's error.
func (c *Controller) Close(ctx context.Context) error { return c.b.Close(ctx) }

type noEvents struct{}

func (noEvents) HandlePublication(string, broker.PublicationEvent) {}
func (noEvents) HandleJoin(string, *channel.ClientInfo)            {}
func (noEvents) HandleLeave(string, *channel.ClientInfo)           {}
func (noEvents) HandleLoss(func(string) bool)                      {}
