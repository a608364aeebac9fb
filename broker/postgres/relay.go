package postgres

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// subscribing bounds the subscription to all topics.
const subscribing = 10 * time.Second

// relay is a Fanout that sends messages to all nodes by a broker, such as the broker of another engine. It is the broker's handler.
type relay struct {
	b       broker.Broker
	traits  broker.Traits
	receive func(topic string, message []byte)
	lost    func()
}

// Run implements Fanout.
func (r *relay) Run(topics []string, receive func(topic string, message []byte), lost func()) error {
	r.receive, r.lost = receive, lost
	if err := r.b.Run(r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), subscribing)
	defer cancel()
	return r.b.Subscribe(ctx, topics...)
}

// Publish implements Fanout.
func (r *relay) Publish(ctx context.Context, topic string, message []byte) error {
	_, err := r.b.Publish(ctx, topic, &channel.Publication{Data: message}, broker.PublishOptions{})
	return err
}

// Down implements Fanout: the broker reports that it does not deliver.
func (r *relay) Down() bool {
	if r.traits.Health == nil {
		return false
	}
	for _, h := range r.traits.Health() {
		if h.Err != nil {
			return true
		}
	}
	return false
}

// Close implements Fanout. It closes the broker.
func (r *relay) Close(ctx context.Context) error { return r.b.Close(ctx) }

// HandlePublication implements broker.EventHandler.
func (r *relay) HandlePublication(topic string, e broker.PublicationEvent) {
	r.receive(topic, e.Pub.Data)
}

// HandleLoss implements broker.EventHandler.
func (r *relay) HandleLoss(func(string) bool) { r.lost() }

// HandleJoin implements broker.EventHandler. A fan-out has no joins.
func (r *relay) HandleJoin(string, *channel.ClientInfo) {}

// HandleLeave implements broker.EventHandler.
func (r *relay) HandleLeave(string, *channel.ClientInfo) {}
