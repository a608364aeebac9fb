package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/broker/postgres/internal/changefeed"
	"github.com/gyrohq/gyro/broker/postgres/internal/groupcommit"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
)

// control carries the control messages of the nodes, by an outbox of its own.
type control struct {
	b *Broker

	mu     sync.Mutex
	node   string
	handle func(data []byte) // nil: the node takes no control messages

	feed  *changefeed.Feed
	queue *groupcommit.Queue[*message]
}

type message struct {
	groupcommit.Job
	node string
	data []byte
	err  error
}

func (m *message) CommitJob() *groupcommit.Job { return &m.Job }

// RunControl implements broker.Controller. Messages come from Run of the broker on. It fails after Run, and the second
// time.
func (b *Broker) RunControl(node string, handle func(data []byte)) error {
	return b.lifecycle.Prepare(func() error {
		c := b.control
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.handle != nil:
			return errors.New("postgres: RunControl was called before")
		case node == "" || schema.CheckName(node) != nil:
			return errors.New("postgres: the ID of the node is empty, too long or no text")
		}
		c.node, c.handle = node, handle
		return nil
	})
}

func (c *control) connect(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == nil {
		return nil
	}
	cfg := &c.b.cfg
	received := make([]struct {
		node string
		data []byte
	}, cfg.ControlNumShards)
	c.feed = changefeed.New(changefeed.Config{
		Interval: cfg.ControlPollInterval, Batch: cfg.BatchSize, Timeout: cfg.Timeout, Connections: c.b.made.Load,
		Listen: c.b.connections.listen, Logger: cfg.Logger,
	}, &changefeed.Table{
		Name: c.b.sets.Control.Outbox, Notify: c.b.sets.Control.Notify, Shards: cfg.ControlNumShards, Columns: "coalesce(x.node_id, ''), x.data",
		Wanted: "x.node_id = ANY ($3::text[])",
		Want: func(int) (any, bool, func() bool) {
			return []string{"", c.node}, false, func() bool { return true }
		},
		Scan: func(shard int, rows pgx.Rows, ahead ...any) error {
			r := &received[shard]
			r.data = nil
			return rows.Scan(append(ahead, &r.node, &r.data)...)
		},
		Deliver: func(shard int, _ int64) { // on a new connection the feed reads all rows, also for other nodes
			if r := &received[shard]; r.node == "" || r.node == c.node {
				c.handle(r.data)
			}
		},
		Lost: func(int, int64, time.Time) {}, // control messages are sent again, or their senders hear nothing
	})
	return c.feed.Begin(ctx, c.b.db)
}

func (c *control) start() {
	b := c.b
	size := 0
	c.queue = &groupcommit.Queue[*message]{
		Write: c.write,
		Fail:  func(m *message, err error) { m.err = err },
		Go:    b.goes,
		Fits: func(batch []*message, m *message) bool {
			if len(batch) == 1 {
				size = len(batch[0].data)
			}
			size += len(m.data)
			return len(batch) < maxItems && size <= maxBytes
		},
	}
	if c.feed != nil {
		b.background.Go(func() { c.feed.Run(b.lifetime) })
	}
}

func (c *control) stop() { c.queue.Close() }

// PublishControl implements broker.Controller. It returns when the message is committed.
func (b *Broker) PublishControl(ctx context.Context, node string, data []byte) error {
	if err := b.lifecycle.Check(ctx); err != nil {
		return err
	}
	if err := schema.CheckName(node); err != nil {
		return err
	}
	m := &message{node: node, data: append([]byte{}, data...)} // the caller may go before it is written
	group := groupcommit.NewGroup(1)
	group.Join(&m.Job)
	b.control.queue.Add(m)
	if err := b.await(ctx, group); err != nil && !m.Done() {
		return err
	}
	return m.err
}

// write sends messages in one transaction. It locks all shards in their order, so that two nodes never wait for one
// another.
func (c *control) write(messages []*message) {
	b := c.b
	var nodes []string
	var data [][]byte
	for _, m := range messages {
		nodes, data = append(nodes, m.node), append(data, m.data)
	}
	locks := "SELECT shard_id FROM " + b.sets.Control.Locks() + " ORDER BY shard_id FOR UPDATE"
	send := "SELECT " + b.sets.Control.Name + "_publish(m.data, m.node, $3) FROM unnest($1::bytea[], $2::text[]) AS m (data, node)"
	err := b.write(target{sort: ofControl}, func(ctx context.Context) error {
		var batch pgx.Batch
		batch.Queue(locks)
		batch.Queue(send, data, nodes, b.cfg.ControlNumShards)
		return b.db.SendBatch(ctx, &batch).Close()
	})
	for _, m := range messages {
		m.err = b.explain(err)
	}
	if err == nil && c.feed != nil {
		c.feed.Look()
	}
}
