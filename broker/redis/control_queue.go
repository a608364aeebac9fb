package redis

import (
	"bytes"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxControlMessages = 4096
	// controlPatience: without room for that long, messages are dropped until there is room.
	controlPatience = time.Second
	// controlWorkers handle messages at a time. The number is the same on each machine, and so is the order of effects.
	controlWorkers = 4
)

// controlQueue has goroutines of its own, so that a slow handler of control messages does not hold up publications.
type controlQueue struct {
	log         *slog.Logger
	all, toNode string // names of the channels
	handle      func(data []byte)
	queue       chan []byte
	done        chan struct{}
	workers     sync.WaitGroup
	dropped     atomic.Uint64
	behind      atomic.Bool // the last message was dropped
}

// newControlQueue is for messages to all nodes, and to this node. Several goroutines call handle, from start to stop.
func newControlQueue(all, toNode string, handle func(data []byte), log *slog.Logger) *controlQueue {
	return &controlQueue{log: log, all: all, toNode: toNode, handle: handle}
}

func (q *controlQueue) counts() (waiting int, dropped uint64) { return len(q.queue), q.dropped.Load() }

func (q *controlQueue) channels() []string { return []string{q.all, q.toNode} }

// start may be called again after stop.
func (q *controlQueue) start() {
	q.queue, q.done = make(chan []byte, maxControlMessages), make(chan struct{})
	for range controlWorkers {
		q.workers.Go(func() {
			for {
				select {
				case data := <-q.queue:
					q.handle(data)
				case <-q.done:
					return
				}
			}
		})
	}
}

// stop discards the messages that wait.
func (q *controlQueue) stop() {
	close(q.done)
	q.workers.Wait()
}

// receive ignores other channels, and does not keep data. It waits up to 1 s for room, and then drops the message.
func (q *controlQueue) receive(name, data []byte) {
	if !q.is(name) {
		return
	}
	if q.offer(name, data) || !q.behind.Load() && q.await(data) {
		q.behind.Store(false)
		return
	}
	q.behind.Store(true)
	q.dropped.Add(1)
	q.log.Warn("redis: a control message was dropped: too many wait for the node", "limit", maxControlMessages)
}

func (q *controlQueue) await(data []byte) bool {
	timer := time.NewTimer(controlPatience)
	defer timer.Stop()
	select {
	case q.queue <- bytes.Clone(data):
	case <-q.done:
	case <-timer.C:
		return false
	}
	return true
}

func (q *controlQueue) is(name []byte) bool { return string(name) == q.all || string(name) == q.toNode }

func (q *controlQueue) offer(name, data []byte) bool {
	if !q.is(name) || len(q.queue) == cap(q.queue) {
		return false
	}
	select {
	case q.queue <- bytes.Clone(data):
		return true
	default:
		return false
	}
}
