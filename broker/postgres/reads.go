package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres/internal/standby"
	"github.com/gyrohq/gyro/channel"
)

// A reader asks the primary, or a replica that has at least the rows of the shard that this node has seen before: in the
// outbox, in answers, by writing. The Floor of a table and shard has the last of them. So an answer is never older than
// the one before, and everything from before a subscription is in the history, or comes live.

var errOld = errors.New("postgres: the replica does not have what this node has seen")

// reader executes a statement of read.sql about channels of a shard.
type reader func(ctx context.Context, table int, name string, args []any, each func(pgx.Rows) error) error

// connectReplicas prepares the connections, which begin with the first question.
func (b *Broker) connectReplicas() (err error) {
	if len(b.connections.replicas) == 0 || b.replicas != nil {
		return nil
	}
	var names []string
	for _, c := range b.connections.replicas {
		names = append(names, address(c))
	}
	b.replicas, err = standby.New(b.lifetime, standby.Config{Timeout: b.cfg.patience(), Logger: b.cfg.Logger}, names, b.connections.replicas)
	return err
}

func (b *Broker) primary(shard int) reader {
	return func(ctx context.Context, table int, name string, args []any, each func(pgx.Rows) error) error {
		return b.do(ctx, table, shard, b.sql.read[table][name], args, each)
	}
}

// do executes a statement on the primary. If it left a row in the outbox, replicas must have that row before they answer
// again.
func (b *Broker) do(ctx context.Context, table, shard int, sql string, args []any, each func(pgx.Rows) error) error {
	q := b.question(table, shard, sql, args, each)
	if b.replicas == nil {
		return q.Plain(ctx, b.db)
	}
	newest, err := q.Ask(ctx, b.db, nil)
	if err == nil {
		b.floors.At(table, shard).Raise(newest)
	}
	return err
}

func (b *Broker) question(table, shard int, sql string, args []any, each func(pgx.Rows) error) *standby.Query {
	return &standby.Query{Table: b.outbox(table), Shard: shard, SQL: sql, Args: args, Each: each}
}

// replica returns nil if no replica answers now. The reader's only error is errOld.
func (b *Broker) replica(shard int, ch string) reader {
	if b.replicas == nil || !b.shardsKnown() {
		return nil
	}
	of := b.replicas.Of(ch)
	if of == nil {
		return nil
	}
	return func(ctx context.Context, table int, name string, args []any, each func(pgx.Rows) error) error {
		q := b.question(table, shard, b.sql.read[table][name], args, each)
		if !of.Ask(ctx, ch, b.floors.At(table, shard), q) {
			return errOld
		}
		return nil
	}
}

func (b *Broker) outbox(table int) string {
	if table == mapTable {
		return b.sets.Map.Outbox
	}
	return b.sets.Stream.Outbox
}

// changed makes the primary answer for channels that changed without a row in the outbox, until a replica has a later
// row of the shard.
func (b *Broker) changed(ctx context.Context, table int, channels ...string) {
	if b.replicas != nil {
		b.floors.Changed(ctx, b.db, table, channels...)
	}
}

// soon bounds the error of a replica's clock that does no harm to a map that is about to end.
const soon = time.Minute

// historyOfReplica returns false if the replica does not answer, or does not show that the primary would give the same
// answer or a little more.
func (b *Broker) historyOfReplica(ctx context.Context, shard int, ch string, f *broker.HistoryFilter, ttl int64) (h broker.History, ok bool) {
	from := b.replica(shard, ch)
	if from == nil {
		return h, false
	}
	var a answer
	var err error
	if !b.floors.At(streamTable, shard).IsEmpty() { // else there are no streams that have begun, and nothing shows how new the replica is
		a, err = readStream(ctx, from, streamTable, ch, f, ttl)
	}
	if err == nil && a.Top.Offset == 0 {
		var m answer
		m, err = readStream(ctx, from, mapTable, ch, f, micros(soon))
		if m.known {
			a = m
		}
	}
	switch {
	case err != nil:
		return h, false
	case !a.known || a.renew || !suffices(&a.History, f):
		b.replicas.Repeated()
		return h, false
	}
	b.replicas.Answered()
	return a.History, true
}

// suffices tells whether a replica's answer is complete, and as new as the caller's knowledge.
func suffices(h *broker.History, f *broker.HistoryFilter) bool {
	switch {
	case older(h.Top, f.AtLeast), f.Since != nil && older(h.Top, *f.Since):
		return false
	case f.Limit == 0:
		return true
	case f.Since == nil:
		return len(h.Publications) > 0
	case f.Reverse:
		return len(h.Publications) > 0 && h.Publications[0].Offset+1 == f.Since.Offset
	case len(h.Publications) > 0:
		return h.Publications[0].Offset == f.Since.Offset+1
	}
	return h.Top.Offset == f.Since.Offset && h.Top.Offset > 0
}

func older(top, known channel.StreamPosition) bool {
	return known.Epoch != "" && known.Epoch != top.Epoch || top.Offset < known.Offset
}

func (b *Broker) stateOfReplica(ctx context.Context, shard int, ch string, f *channel.StateFilter) (s channel.State, ok bool) {
	from := b.replica(shard, ch)
	if from == nil {
		return s, false
	}
	s, known, err := readState(ctx, from, ch, f)
	switch {
	case err != nil:
		return s, false
	case !known || s.Count == 0 || f.Key != "" && len(s.Entries) == 0:
		b.replicas.Repeated()
		return channel.State{}, false
	}
	b.replicas.Answered()
	return s, true
}
