package redis

import (
	"context"

	"github.com/gyrohq/gyro/broker/redis/internal/keys"
	"github.com/gyrohq/gyro/broker/redis/internal/mark"
)

// newMarks makes the marks of a link: one, or in a Cluster so many that they reach all
// primaries. With partitions all history is in their slots, so the plain link has no marks.
func newMarks(b *Broker, s *shard, partition int) *mark.Marks {
	var list []string
	switch {
	case partition >= 0:
		list = []string{s.names.Mark(b.node, keys.PartitionTag(partition))}
	case s.names.Partitions > 0:
	case s.client.Cluster():
		for _, tag := range keys.Spread() {
			list = append(list, s.names.Mark(b.node, tag))
		}
	default:
		list = []string{s.names.Mark(b.node, "")}
	}
	return mark.New(list)
}

// mark writes the marks of the link, if this node uses history. Marks do not show the loss of
// publications that came after the last marks; settle.go says what does.
func (l *link) mark(ctx context.Context) {
	s := l.shard
	if !s.keeps.Load() {
		return
	}
	f := l.marks.Write(ctx, s.client)
	if f.WentBack {
		s.wentBack.Store(true)
	}
	if f.Written && s.client.Replaced() || f.WentBack || f.Replication {
		s.client.Doubt()
	}
}

// watch writes the marks, and settles the shard in the background if it is in doubt.
func (l *link) watch(ctx context.Context) {
	l.mark(ctx)
	if !l.shard.isSettled() {
		l.broker.compare(l.shard)
	}
}

// wentBack notes proof that the shard has lost data, and starts a comparison.
func (b *Broker) wentBack(s *shard) {
	s.wentBack.Store(true)
	s.client.Doubt()
	b.compare(s)
}
