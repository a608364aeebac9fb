package postgres

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

const subscribing = 10 * time.Second

// relay is a Fanout over a broker, and the handler of the broker.
type relay struct {
	b       broker.Broker
	traits  broker.Traits
	receive func(topic string, message []byte)
	lost    func()
}

func (r *relay) Run(topics []string, receive func(topic string, message []byte), lost func()) error {
	r.receive, r.lost = receive, lost
	if err := r.b.Run(r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), subscribing)
	defer cancel()
	return r.b.Subscribe(ctx, topics...)
}

func (r *relay) Publish(ctx context.Context, topic string, message []byte) error {
	_, err := r.b.Publish(ctx, topic, &channel.Publication{Data: message}, broker.PublishOptions{})
	return err
}

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

func (r *relay) Close(ctx context.Context) error { return r.b.Close(ctx) }

func (r *relay) HandlePublication(topic string, e broker.PublicationEvent) {
	r.receive(topic, e.Pub.Data)
}

func (r *relay) HandleLoss(func(string) bool) { r.lost() }

func (r *relay) HandleJoin(string, *channel.ClientInfo) {}

func (r *relay) HandleLeave(string, *channel.ClientInfo) {}
