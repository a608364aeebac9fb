package redis

import (
	"bytes"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// inboxLimit is how many control messages wait for their handler.
	inboxLimit = 4096
	// inboxPatience is how long receive waits for room. Then it drops messages until there is
	// room.
	inboxPatience = time.Second
)

// inbox hands control messages to the node in goroutines of its own, so that a slow handler
// does not hold up publications.
type inbox struct {
	log         *slog.Logger
	all, toNode string // names of the channels
	handle      func(data []byte)
	queue       chan []byte
	done        chan struct{}
	workers     sync.WaitGroup
	dropped     atomic.Uint64
	behind      atomic.Bool // the last message was dropped
}

// newInbox returns an inbox of the messages of two channels: to all nodes, and to this node. Several goroutines call handle,
// from start to stop.
func newInbox(all, toNode string, handle func(data []byte), log *slog.Logger) *inbox {
	return &inbox{log: log, all: all, toNode: toNode, handle: handle}
}

// counts returns how many messages wait, and how many were dropped.
func (i *inbox) counts() (waiting int, dropped uint64) { return len(i.queue), i.dropped.Load() }

// channels returns the channels to subscribe to.
func (i *inbox) channels() []string { return []string{i.all, i.toNode} }

// start starts handing messages over. It may be called again after stop.
func (i *inbox) start() {
	i.queue, i.done = make(chan []byte, inboxLimit), make(chan struct{})
	for range runtime.GOMAXPROCS(0) {
		i.workers.Go(func() {
			for {
				select {
				case data := <-i.queue:
					i.handle(data)
				case <-i.done:
					return
				}
			}
		})
	}
}

// stop waits for the handlers under way, and discards the messages that wait.
func (i *inbox) stop() {
	close(i.done)
	i.workers.Wait()
}

// receive takes a message and ignores it unless it is from one of channels. It does not keep
// data. It waits up to 1 s for room, and drops the message if there is none.
func (i *inbox) receive(name, data []byte) {
	if !i.is(name) {
		return
	}
	if i.offer(name, data) || !i.behind.Load() && i.await(data) {
		i.behind.Store(false)
		return
	}
	i.behind.Store(true)
	i.dropped.Add(1)
	i.log.Warn("redis: a control message was dropped: too many wait for the node", "limit", inboxLimit)
}

// await takes a control message if there is room soon.
func (i *inbox) await(data []byte) bool {
	timer := time.NewTimer(inboxPatience)
	defer timer.Stop()
	select {
	case i.queue <- bytes.Clone(data):
	case <-i.done:
	case <-timer.C:
		return false
	}
	return true
}

// is tells whether a channel is one of channels.
func (i *inbox) is(name []byte) bool { return string(name) == i.all || string(name) == i.toNode }

// offer is receive without waiting. It reports whether it took the message.
func (i *inbox) offer(name, data []byte) bool {
	if !i.is(name) || len(i.queue) == cap(i.queue) {
		return false
	}
	select {
	case i.queue <- bytes.Clone(data):
		return true
	default:
		return false
	}
}
