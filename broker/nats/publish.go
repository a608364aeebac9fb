package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Publish implements broker.Broker. It returns nil when the node's NATS server has processed the publication; concurrent
// publishes share that round trip. Without a connection it fails at once. If the connection breaks meanwhile it fails
// although the publication may have been delivered. It fails with protocol.ErrorLimitExceeded above the server's
// max_payload, with protocol.ErrorBadRequest for a channel that has a wildcard, does not make a NATS subject, or makes
// one that belongs to NATS or to Gyro, and with protocol.ErrorPermissionDenied for a subject that the server does not
// permit.
func (b *Broker) Publish(ctx context.Context, ch string, pub *channel.Publication, opts broker.PublishOptions) (broker.PublishResult, error) {
	enginekit.Stamp(pub, time.Now())
	return broker.PublishResult{}, b.send(ctx, ch, message{pub: pub, delta: opts.Delta})
}

// PublishJoin implements broker.Broker. In raw mode it does nothing.
func (b *Broker) PublishJoin(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.send(ctx, ch, message{join: info})
}

// PublishLeave implements broker.Broker. In raw mode it does nothing.
func (b *Broker) PublishLeave(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.send(ctx, ch, message{leave: info})
}

type message struct {
	pub         *channel.Publication
	delta       bool
	join, leave *channel.ClientInfo
}

func (b *Broker) send(ctx context.Context, ch string, m message) error {
	subject, err := b.names.toPublish(ch)
	if err != nil {
		return b.refused(err)
	}
	number, err := b.ready(ctx)
	if err != nil {
		return err
	}
	if b.names.raw && m.pub == nil {
		return nil
	}
	since := b.flusher.begin()
	if err := b.write(ch, subject, m); err != nil {
		return err
	}
	if err := b.flush(ctx, number); err != nil {
		return err
	}
	return b.flusher.denies(toPublish, subject, since)
}

// refused logs once a second at most.
func (b *Broker) refused(err error) error {
	if b.monitor.mayLog() {
		b.log.Warn("channel refused", "engine", b.part, "error", err)
	}
	return err
}

// buffers hold encoded messages until the NATS client has copied them.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// keepBuffer is the largest buffer that is used again.
const keepBuffer = 64 << 10

func (b *Broker) write(ch, subject string, m message) error {
	conn := b.conn.Load()
	if b.names.raw {
		return published(conn, len(m.pub.Data), conn.Publish(subject, m.pub.Data))
	}
	buf := buffers.Get().(*[]byte)
	*buf = appendPush((*buf)[:0], ch, m)
	err := published(conn, len(*buf), conn.Publish(subject, *buf))
	if cap(*buf) <= keepBuffer {
		buffers.Put(buf)
	}
	return err
}

func appendPush(dst []byte, ch string, m message) []byte {
	var (
		push  = protocol.Push{Channel: ch}
		pub   protocol.Publication
		join  protocol.Join
		leave protocol.Leave
	)
	switch {
	case m.pub != nil:
		pub = m.pub.Message()
		pub.Delta = m.delta
		push.Pub = &pub
	case m.join != nil:
		join.Info = m.join
		push.Join = &join
	default:
		leave.Info = m.leave
		push.Leave = &leave
	}
	return push.AppendProto(dst)
}

func published(conn *natsio.Conn, size int, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, natsio.ErrMaxPayload):
		return fmt.Errorf("nats: publication of %d bytes, the server's max_payload is %d: %w", size, conn.MaxPayload(), protocol.ErrorLimitExceeded)
	case errors.Is(err, natsio.ErrReconnectBufExceeded), errors.Is(err, natsio.ErrConnectionClosed):
		return errDisconnected
	}
	return fmt.Errorf("nats: publishing: %w", err)
}

// ctxEvery is how many publications of a batch share one look at the context.
const ctxEvery = 64

// PublishBatch is Traits.Batch: the items share one round trip.
func (b *Broker) PublishBatch(ctx context.Context, batch []broker.BatchItem) {
	number, err := b.ready(ctx)
	since := b.flusher.begin()
	sent := false
	for i := range batch {
		if i%ctxEvery == 0 && err == nil {
			err = ctx.Err()
		}
		item := &batch[i]
		item.Unkept = true // the NATS client gets an encoded copy
		item.Result, item.Err = broker.PublishResult{}, err
		if err != nil {
			continue
		}
		if subject, err := b.names.toPublish(item.Channel); err != nil {
			item.Err = b.refused(err)
		} else {
			enginekit.Stamp(item.Pub, time.Now())
			item.Err = b.write(item.Channel, subject, message{pub: item.Pub, delta: item.Options.Delta})
			sent = sent || item.Err == nil
		}
	}
	if !sent {
		return
	}
	err = b.flush(ctx, number)
	for i := range batch {
		if item := &batch[i]; item.Err == nil {
			item.Err = err
			if err == nil {
				item.Err = b.denied(item.Channel, since)
			}
		}
	}
}

func (b *Broker) denied(ch string, since uint64) error {
	if !b.flusher.any.Load() {
		return nil
	}
	subject, err := b.names.toPublish(ch)
	if err != nil {
		return err
	}
	return b.flusher.denies(toPublish, subject, since)
}
