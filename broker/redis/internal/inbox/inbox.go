// Package inbox holds control messages until the node has handled them.
package inbox

import (
	"bytes"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Limit is how many control messages wait for their handler.
	Limit = 4096
	// patience is how long Receive waits for room. Then it drops messages until there is
	// room.
	patience = time.Second
)

// Inbox hands control messages to the node in goroutines of its own, so that a slow handler
// does not hold up publications.
type Inbox struct {
	log         *slog.Logger
	all, toNode string // names of the channels
	handle      func(data []byte)
	queue       chan []byte
	done        chan struct{}
	workers     sync.WaitGroup
	dropped     atomic.Uint64
	behind      atomic.Bool // the last message was dropped
}

// New returns an inbox of the messages of two channels: those to all nodes and those to
// this one. Handle is called by several goroutines, from Start to Stop.
func New(all, toNode string, handle func(data []byte), log *slog.Logger) *Inbox {
	return &Inbox{log: log, all: all, toNode: toNode, handle: handle}
}

// Counts returns how many messages wait, and how many were dropped.
func (i *Inbox) Counts() (waiting int, dropped uint64) { return len(i.queue), i.dropped.Load() }

// Channels returns the channels to subscribe to.
func (i *Inbox) Channels() []string { return []string{i.all, i.toNode} }

// Start starts handing messages over. It may be called again after Stop.
func (i *Inbox) Start() {
	i.queue, i.done = make(chan []byte, Limit), make(chan struct{})
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

// Stop waits for the handlers under way, and discards the messages that wait.
func (i *Inbox) Stop() {
	close(i.done)
	i.workers.Wait()
}

// Receive takes a message and ignores it unless it is from one of Channels. It does not keep
// data. It waits up to 1 s for room, and drops the message if there is none.
func (i *Inbox) Receive(name, data []byte) {
	if !i.is(name) {
		return
	}
	if i.Offer(name, data) || !i.behind.Load() && i.await(data) {
		i.behind.Store(false)
		return
	}
	i.behind.Store(true)
	i.dropped.Add(1)
	i.log.Warn("redis: a control message was dropped: too many wait for the node", "limit", Limit)
}

// await takes a control message if there is room soon.
func (i *Inbox) await(data []byte) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case i.queue <- bytes.Clone(data):
	case <-i.done:
	case <-timer.C:
		return false
	}
	return true
}

// is tells whether a channel is one of Channels.
func (i *Inbox) is(name []byte) bool { return string(name) == i.all || string(name) == i.toNode }

// Offer is Receive without waiting. It reports whether it took the message.
func (i *Inbox) Offer(name, data []byte) bool {
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
