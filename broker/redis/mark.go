package redis

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
)

// newMarks makes one mark, or in a Cluster so many that they reach all primaries. With partitions all history is in
// their slots, so the plain receiver has none.
func newMarks(b *Broker, s *shard, partition int) *losses.Marks {
	var tags []string
	switch {
	case partition >= 0:
		tags = []string{format.PartitionTag(partition)}
	case s.names.Partitions > 0:
	case s.client.Cluster():
		spread := format.Spread()
		tags = spread[:]
	default:
		tags = []string{""}
	}
	return losses.NewMarks(&s.names, b.node, tags, b.kinds.PublishBy(s.names.Partitions > 0))
}

// mark writes the marks, if this node uses history or presence. They do not show the loss of publications after the last
// marks; verifications do. The error says why Redis takes no publications.
func (r *receiver) mark(ctx context.Context) error {
	s := r.shard
	if !s.used.Load() {
		return nil
	}
	f := r.marks.Write(ctx, s.client)
	if f.RolledBack {
		s.rolledBack.Store(true)
	}
	if f.Written && s.client.Replaced() || f.RolledBack || f.Replication {
		s.client.NewGeneration()
	}
	return f.Err
}

// maxMarkFailures is how often in a row marks may fail: a slot that migrates, or a new primary, refuses a moment's
// writes.
const maxMarkFailures = 1

// markFailures: one goroutine at a time calls note.
type markFailures struct {
	row int
	err atomic.Pointer[error] // why there are more than maxMarkFailures in a row; nil: there are not
}

// note reports whether the state has changed.
func (r *markFailures) note(err error) (news bool) {
	if err == nil {
		r.row = 0
		return r.err.Swap(nil) != nil
	}
	r.row++
	if r.row <= maxMarkFailures {
		return false
	}
	return r.err.Swap(&err) == nil
}

func (r *markFailures) last() error {
	if err := r.err.Load(); err != nil {
		return fmt.Errorf("publications with history are refused: %w", *err)
	}
	return nil
}

// watch also verifies the shard in the background if its generation is new.
func (r *receiver) watch(ctx context.Context) {
	err := r.mark(ctx)
	if log := r.broker.engine.cfg.Logger; ctx.Err() == nil && r.markFailures.note(err) {
		if err != nil {
			log.Error("redis stores nothing: publications with history are refused", "part", r.shard.client.Name(), "error", err)
		} else {
			log.Info("redis stores publications again", "part", r.shard.client.Name())
		}
	}
	if !r.shard.isVerified() {
		r.broker.startVerification(r.shard)
	}
}

func (b *Broker) noteRollback(s *shard) {
	s.rolledBack.Store(true)
	s.client.NewGeneration()
	b.startVerification(s)
}
