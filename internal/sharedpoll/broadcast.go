package sharedpoll

import (
	"context"
	"errors"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Polls implements channel.Polls. A published value goes to all nodes as the payload of a publication in its channel:
// engines know nothing of keys and their versions.
type Polls struct {
	*Table
	Broker broker.Broker
}

var _ channel.Polls = (*Polls)(nil)

// Publish implements channel.Polls.
func (p *Polls) Publish(ctx context.Context, ch, epoch string, v channel.KeyValue) error {
	if ch == "" || v.Key == "" || len(v.Key) > channel.MaxKeyLength || v.Version == 0 {
		return protocol.ErrorBadRequest
	}
	if !v.Removed {
		if _, err := p.checks(ch, v.Data); err != nil {
			return err
		}
	}
	m := protocol.Publication{Key: v.Key, Data: v.Data, Version: v.Version, Removed: v.Removed, Epoch: epoch, PrevData: v.Prev}
	_, err := p.Broker.Publish(ctx, ch, &channel.Publication{Data: m.AppendProto(nil)}, channel.PublishOptions{SkipHistory: true})
	return err
}

var errForeign = errors.New("a publication of the channel is no value of a key")

// Take takes a publication of a broker if it is of a channel in the table.
func (t *Table) Take(ch string, e broker.PublicationEvent) bool {
	c := t.Find(ch)
	if c == nil {
		return false
	}
	m := new(protocol.Publication)
	err := m.UnmarshalProto(append([]byte(nil), e.Pub.Data...)) // the memory of the event is used again
	if e.Memory != nil {
		e.Memory.Free(1)
	}
	if err != nil || m.Key == "" || m.Version == 0 {
		t.ignored(ch, odd{"", errForeign})
		return true
	}
	c.Publish(m.Epoch, channel.KeyValue{Key: m.Key, Data: m.Data, Version: m.Version, Removed: m.Removed, Prev: m.PrevData})
	return true
}
