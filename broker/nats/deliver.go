package nats

import (
	"strings"
	"time"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// deliver hands a message to the node. The event may consist of parts of it.
func (b *Broker) deliver(ch string, m *natsio.Msg) {
	if b.names.wildcards && m.Subject != m.Sub.Subject {
		if name, ok := b.names.matched(ch, m.Subject); !ok || !b.covers(ch, name) {
			return
		}
	}
	if b.names.raw {
		b.handler.HandlePublication(ch, broker.PublicationEvent{Pub: &channel.Publication{
			Data: m.Data, Time: time.Now().UnixMilli(), Channel: strings.TrimPrefix(m.Subject, b.names.prefix),
		}})
		return
	}
	var push protocol.Push
	if err := push.BorrowProto(m.Data); err != nil {
		b.log.Warn("message was dropped, it is not a push", "engine", b.part, "subject", m.Subject, "size", len(m.Data), "error", err)
		return
	}
	switch {
	case push.Pub != nil:
		b.deliverPublication(ch, m, push.Pub)
	case m.Subject != m.Sub.Subject:
		// Joins and leaves are not delivered to patterns.
	case push.Join != nil && push.Join.Info != nil:
		b.handler.HandleJoin(ch, push.Join.Info)
	case push.Leave != nil && push.Leave.Info != nil:
		b.handler.HandleLeave(ch, push.Leave.Info)
	}
}

func (b *Broker) deliverPublication(ch string, m *natsio.Msg, p *protocol.Publication) {
	pub := channel.FromMessage(p)
	pub.Offset = 0
	if b.names.wildcards {
		pub.Channel = strings.TrimPrefix(m.Subject, b.names.prefix)
	}
	b.handler.HandlePublication(ch, broker.PublicationEvent{Pub: pub, Delta: p.Delta})
}
