// Package relay sends messages to all nodes by a broker, such as that of another engine.
package relay

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// subscribing bounds the subscription to all topics.
const subscribing = 10 * time.Second

// Broker sends messages by a broker. It is the broker's handler.
type Broker struct {
	b       broker.Broker
	traits  broker.Traits
	receive func(topic string, message []byte)
	lost    func()
}

// Over returns what sends by b, which nobody else uses.
func Over(b broker.Broker) *Broker { return &Broker{b: b, traits: b.Describe()} }

// Run begins: receive gets the messages of each topic, and lost is called when some may be missing.
func (o *Broker) Run(topics []string, receive func(topic string, message []byte), lost func()) error {
	o.receive, o.lost = receive, lost
	if err := o.b.Run(o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), subscribing)
	defer cancel()
	return o.b.Subscribe(ctx, topics...)
}

// Publish sends a message.
func (o *Broker) Publish(ctx context.Context, topic string, message []byte) error {
	_, err := o.b.Publish(ctx, topic, &channel.Publication{Data: message}, broker.PublishOptions{})
	return err
}

// Down tells that the broker does not deliver.
func (o *Broker) Down() bool {
	if o.traits.Health == nil {
		return false
	}
	for _, h := range o.traits.Health() {
		if h.Err != nil {
			return true
		}
	}
	return false
}

// Close closes the broker.
func (o *Broker) Close(ctx context.Context) error { return o.b.Close(ctx) }

// HandlePublication implements broker.EventHandler.
func (o *Broker) HandlePublication(topic string, e broker.PublicationEvent) {
	o.receive(topic, e.Pub.Data)
}

// HandleLoss implements broker.EventHandler.
func (o *Broker) HandleLoss(func(string) bool) { o.lost() }

// HandleJoin implements broker.EventHandler. Nobody publishes joins.
func (o *Broker) HandleJoin(string, *channel.ClientInfo) {}

// HandleLeave implements broker.EventHandler.
func (o *Broker) HandleLeave(string, *channel.ClientInfo) {}
