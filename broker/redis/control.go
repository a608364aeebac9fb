package redis

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/keys"
	"github.com/gyrohq/gyro/broker/redis/internal/script"
)

const (
	// maxControl control messages wait for their handler. If there is no room for another
	// one, the link waits for controlPatience; then it drops them until there is.
	maxControl      = 4096
	controlPatience = time.Second
)

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
	behind      atomic.Bool // the last one was dropped
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
	if !c.is(name) {
		return
	}
	if c.offer(name, data) || !c.behind.Load() && c.await(data) {
		c.behind.Store(false)
		return
	}
	c.behind.Store(true)
	c.dropped.Add(1)
	c.broker.engine.cfg.Logger.Warn("redis: a control message was dropped: too many wait for the node", "limit", maxControl)
}

// await takes a control message if there is room soon.
func (c *control) await(data []byte) bool {
	timer := time.NewTimer(controlPatience)
	defer timer.Stop()
	select {
	case c.queue <- bytes.Clone(data):
	case <-c.done: // and nobody wants it any more
	case <-timer.C:
		return false
	}
	return true
}

// is tells whether a channel is one of control messages.
func (c *control) is(name []byte) bool { return string(name) == c.all || string(name) == c.toNode }

// offer takes a control message if there is room.
func (c *control) offer(name, data []byte) bool {
	if !c.is(name) || len(c.queue) == cap(c.queue) {
		return false
	}
	select {
	case c.queue <- bytes.Clone(data):
		return true
	default:
		return false
	}
}
