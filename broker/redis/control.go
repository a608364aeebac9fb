package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
)

// RunControl implements broker.Controller. Messages come from Run of the broker on. It fails after Run, and when it is
// called twice.
func (b *Broker) RunControl(node string, handle func(data []byte)) error {
	return b.lifecycle.Prepare(func() error {
		switch {
		case b.control != nil:
			return errors.New("redis: RunControl was called before")
		case node == "":
			return errors.New("redis: the ID of the node is empty")
		}
		prefix := b.engine.cfg.Prefix
		b.node = node
		b.control = newControlQueue(format.ControlChannel(prefix), format.NodeChannel(prefix, node), handle, b.engine.cfg.Logger)
		return nil
	})
}

// PublishControl implements broker.Controller. Every node receives control messages from every shard, so the shards take
// turns, unhealthy ones last, until one accepts the message and does not know that the node misses it.
func (b *Broker) PublishControl(ctx context.Context, node string, data []byte) error {
	shards, err := b.running(ctx)
	if err != nil {
		return err
	}
	name := format.ControlChannel(b.engine.cfg.Prefix)
	if node != "" {
		name = format.NodeChannel(b.engine.cfg.Prefix, node)
	}
	b.controlMu.Lock()
	b.lastControl = (b.lastControl + 1) % len(shards)
	first := b.lastControl
	b.controlMu.Unlock()
	var healthy, unhealthy []int
	var failures []error
	for i := range shards {
		if at := (first + i) % len(shards); b.unhealthy(at) {
			unhealthy = append(unhealthy, at)
		} else {
			healthy = append(healthy, at)
		}
	}
	for _, at := range append(healthy, unhealthy...) {
		if noReceiver, err := commands.Send(ctx, shards[at].client, name, string(data)); err != nil {
			failures = append(failures, err)
		} else if !noReceiver || node == "" {
			return nil
		}
	}
	if len(failures) == 0 {
		return fmt.Errorf("redis: %w %s", broker.ErrNoReceiver, node)
	}
	return errors.Join(failures...)
}

func (b *Broker) unhealthy(shard int) bool {
	receivers := b.receivers[shard]
	_, err := receivers[len(receivers)-1].conn.Health()
	return err != nil
}
