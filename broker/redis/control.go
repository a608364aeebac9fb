package redis

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/broker/redis/internal/keys"
	"github.com/gyrohq/gyro/broker/redis/internal/script"
)

// maxControl control messages wait for their handler; more are dropped.
const maxControl = 4096

// control hands control messages to the node, apart from publications: a handler
// may take its time.
type control struct {
	broker      *Broker
	all, toNode string // names of the channels
	handle      func(data []byte)
	queue       chan []byte
	done        chan struct{}
	workers     sync.WaitGroup
	dropped     atomic.Uint64
}

// RunControl implements broker.Controller. Messages come from Run of the broker on.
// It fails after Run, and when called twice.
func (b *Broker) RunControl(node string, handle func(data []byte)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.state != stateNew:
		return errRunTwice
	case b.control != nil:
		return errors.New("redis: RunControl was called before")
	case node == "":
		return errors.New("redis: the ID of the node is empty")
	}
	prefix := b.engine.cfg.Prefix
	b.node = node
	b.control = &control{broker: b, all: keys.Control(prefix), toNode: keys.NodeControl(prefix, node), handle: handle}
	return nil
}

// PublishControl implements broker.Controller. Every node hears every shard, so the
// shards take turns; one that fails or is known to be ill is passed over.
func (b *Broker) PublishControl(ctx context.Context, node string, data []byte) error {
	shards, err := b.running(ctx)
	if err != nil {
		return err
	}
	name := keys.Control(b.engine.cfg.Prefix)
	if node != "" {
		name = keys.NodeControl(b.engine.cfg.Prefix, node)
	}
	var c script.Call
	c.Message(script.Publish, name, string(data))
	b.turn.Lock()
	b.lastUsed = (b.lastUsed + 1) % len(shards)
	first := b.lastUsed
	b.turn.Unlock()
	var failures []error
	for _, ill := range []bool{false, true} {
		for i := range shards {
			at := (first + i) % len(shards)
			if b.ill(at) != ill {
				continue
			}
			if _, err := script.Run(ctx, shards[at].client, &c); err != nil {
				failures = append(failures, err)
				continue
			}
			return nil
		}
	}
	return errors.Join(failures...)
}

// ill tells that control messages by this shard are not known to arrive.
func (b *Broker) ill(shard int) bool {
	links := b.links[shard]
	_, err := links[len(links)-1].conn.Health()
	return err != nil
}

func (c *control) channels() []string { return []string{c.all, c.toNode} }

func (c *control) start() {
	c.queue, c.done = make(chan []byte, maxControl), make(chan struct{})
	for range runtime.GOMAXPROCS(0) {
		c.workers.Go(func() {
			for {
				select {
				case data := <-c.queue:
					c.handle(data)
				case <-c.done:
					return
				}
			}
		})
	}
}

// stop waits for the handlers.
func (c *control) stop() {
	close(c.done)
	c.workers.Wait()
}

// receive takes a message of any channel, which it must not keep.
func (c *control) receive(name, data []byte) {
	if string(name) != c.all && string(name) != c.toNode {
		return
	}
	select {
	case c.queue <- bytes.Clone(data):
	default:
		c.dropped.Add(1)
		c.broker.engine.cfg.Logger.Warn("redis: a control message was dropped: too many wait for the node", "limit", maxControl)
	}
}
