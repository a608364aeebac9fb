package redis

import (
	"context"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/keys"
	"github.com/gyrohq/gyro/broker/redis/internal/reply"
	"github.com/gyrohq/gyro/broker/redis/internal/script"
	"github.com/gyrohq/gyro/broker/redis/internal/slab"
)

// A server can get older data without a restart: DEBUG RELOAD, REPLICAOF a stale copy
// and back, a slot that its former owner takes back. Its connections stay, so nothing
// but its data can tell. So each node writes a mark with every canary, a number that it
// counts up: where the number is less than the last that Redis acknowledged, the data
// went back. What was published since the last mark is not covered: see settle.go for
// what else there is.

// markTTL is longer than a node that lives may be cut off.
const markTTL = 24 * time.Hour

// marks of a link: one, or in a Cluster as many as it takes to reach all primaries.
type marks struct {
	keys []string // constant

	mu     sync.Mutex // held during a round trip: marks are written one after the other
	number uint64
	last   []mark // by key
}

// mark is what a key held last, as far as Redis has acknowledged it.
type mark struct {
	number      uint64
	replication string
}

// newMarks makes those of a link.
func newMarks(b *Broker, s *shard, partition int) *marks {
	m := &marks{}
	switch {
	case partition >= 0:
		m.keys = []string{s.names.Mark(b.node, keys.PartitionTag(partition))}
	case s.client.Cluster():
		for _, tag := range keys.Spread() {
			m.keys = append(m.keys, s.names.Mark(b.node, tag))
		}
	default:
		m.keys = []string{s.names.Mark(b.node, "")}
	}
	m.last = make([]mark, len(m.keys))
	return m
}

// mark writes the marks of the link and looks at those before, if there is anything of
// whose loss they could tell. Errors are nobody's: a mark that cannot be written says
// nothing.
func (l *link) mark(ctx context.Context) {
	s, m := l.shard, l.marks
	if !s.keeps.Load() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number++
	var text slab.Slab
	calls := make([]script.Call, len(m.keys))
	for i, key := range m.keys {
		calls[i].Script = script.Mark
		calls[i].Key(key)
		calls[i].Arg(text.Number(m.number))
		calls[i].Arg(text.Milliseconds(markTTL))
	}
	answers, _ := script.RunAll(ctx, s.client, calls, nil)
	written, doubt := false, false
	for i := range answers {
		before, replication, err := reply.Mark(&answers[i])
		if err != nil {
			continue
		}
		last := &m.last[i]
		if before < last.number {
			s.wentBack.Store(true)
			doubt = true
		}
		doubt = doubt || last.number > 0 && replication != last.replication
		*last = mark{m.number, replication}
		written = true
	}
	if written && s.client.Replaced() || doubt {
		s.client.Doubt()
	}
}

// watch writes the marks, and settles the shard in the background if that is in doubt.
func (l *link) watch(ctx context.Context) {
	l.mark(ctx)
	if !l.shard.isSettled() {
		l.broker.compare(l.shard)
	}
}

// wentBack tells of proof that the shard has lost what it held, and has everything
// compared that it should hold.
func (b *Broker) wentBack(s *shard) {
	s.wentBack.Store(true)
	s.client.Doubt()
	b.compare(s)
}
