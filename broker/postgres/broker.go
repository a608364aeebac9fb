package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/postgres/internal/changefeed"
	"github.com/gyrohq/gyro/broker/postgres/internal/groupcommit"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
	"github.com/gyrohq/gyro/broker/postgres/internal/standby"
	"github.com/gyrohq/gyro/channel"
)

// Broker is a broker on PostgreSQL, and the controller of its nodes. Each node delivers every committed row, per channel
// in the order of the commits; after an outage it goes on from its last row. Publications that are made at a time share
// transactions. Any goroutine may call the methods.
type Broker struct {
	cfg         Config
	sets        schema.Sets
	part        string // for operators
	connections connections
	control     *control
	alone       bool // there is nothing but control

	connecting sync.Mutex // guards connected and, until the broker runs, db
	connected  bool

	lifecycle enginekit.Lifecycle

	lifetime   context.Context // of background
	end        context.CancelFunc
	background sync.WaitGroup

	// Constant while the broker runs.
	handler broker.EventHandler
	db      *pgxpool.Pool
	feed    *changefeed.Feed
	expiry  enginekit.ExpiryMeter             // of maps
	streams []*groupcommit.Queue[*publishing] // by shard
	changes []*groupcommit.Queue[*changing]
	slots   chan struct{} // of transactions that write
	hashes  bool          // the server has the hashes of schema.HashText

	replicas *standby.Set // nil: none
	floors   *standby.Floors

	fanoutEnds sync.Once

	made    atomic.Uint64 // connections
	subs    *changefeed.Subscriptions
	sql     statements
	trouble atomic.Pointer[string] // that upkeep has found
	proof   proof
}

var (
	errRunTwice   = errors.New("postgres: the broker has been run before, or closed")
	errNotRunning = errors.New("postgres: the broker does not run yet")
)

const (
	streamTable = iota
	mapTable
)

// New returns a broker that is not connected yet. An error names the field that is wrong.
func New(cfg Config) (*Broker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{
		cfg: cfg, sets: schema.NewSets(cfg.TablePrefix, cfg.BinaryData),
		lifecycle: enginekit.Lifecycle{ErrRunTwice: errRunTwice, ErrNotRunning: errNotRunning, ErrClosed: groupcommit.ErrClosed},
	}
	b.subs = changefeed.NewSubscriptions(cfg.NumShards, b.unread, b.goes)
	if b.connections, err = cfg.connections(); err != nil {
		return nil, err
	}
	b.connections.pool.AfterConnect = func(context.Context, *pgx.Conn) error {
		b.made.Add(1)
		return nil
	}
	b.floors = standby.NewFloors(cfg.NumShards, b.sets.Stream.Outbox, b.sets.Map.Outbox)
	b.part = "postgres (" + address(b.connections.pool) + ")"
	b.sql = newStatements(&b.sets)
	b.lifetime, b.end = context.WithCancel(context.Background())
	b.control = &control{b: b}
	b.proof.doubts, b.proof.targets = make(chan struct{}, 1), make(map[target]fault)
	return b, nil
}

func address(p *pgxpool.Config) string {
	c := p.ConnConfig
	return fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database)
}

// Broker returns b, so that a program can set gyro.Config.Engine to it.
func (b *Broker) Broker() broker.Broker { return b }

// Describe implements broker.Engine.
func (b *Broker) Describe() broker.Traits {
	return broker.Traits{
		Name: "postgres", Health: b.Health, Metrics: b.metrics, Expiry: b.expiry.Expiry,
		History: true, Idempotency: true, Versions: true, Delta: true,
		Batch: b.PublishBatch, Positions: b.Positions, Maps: maps{b}, Control: b,
	}
}

// Connect connects, and makes or checks the tables. It tries for Config.StartTimeout. It fails if PostgreSQL cannot be
// reached or refuses, or if a newer program made the tables. If the broker is connected, it does nothing.
func (b *Broker) Connect(ctx context.Context) error {
	b.connecting.Lock()
	defer b.connecting.Unlock()
	if b.connected {
		return nil
	}
	err := b.retry(ctx, b.connect)
	if b.lifetime.Err() != nil {
		err = groupcommit.ErrClosed
	}
	b.connected = err == nil
	return b.explain(err)
}

// Run implements broker.Broker. It connects like Connect, if that was not called.
func (b *Broker) Run(h broker.EventHandler) error {
	if err := b.lifecycle.Start(); err != nil {
		return err
	}
	b.handler = h
	err := b.Connect(context.Background())
	if err == nil {
		err = b.explain(b.retry(context.Background(), b.begin))
	}
	if err == nil {
		err = b.explain(b.runFanout())
	}
	if err == nil {
		err = b.explain(b.lifecycle.Running(b.start))
	}
	if err != nil {
		b.lifecycle.Close()
		b.end()
		_ = b.closeFanout(context.Background())
		b.disconnect()
	}
	return err
}

// retry calls try until it succeeds, fails for good, Config.StartTimeout is over, or ctx or the broker ends.
func (b *Broker) retry(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.lifetime, cancel)()
	hopeless := func(err error) bool { return !mayPass(err) }
	r := enginekit.Retry{Timeout: b.cfg.StartTimeout, Hopeless: hopeless, Failed: func(err error) {
		b.cfg.Logger.Warn("postgres cannot be reached, trying again", "engine", b.part, "error", err)
	}}
	return r.Do(ctx, try)
}

// mayPass tells that trying again may help: there is no connection, or the server starts or stops.
func mayPass(err error) bool {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code[:2] == "57" || answer.Code[:2] == "53" || answer.Code[:2] == "08"
	}
	var failed *pgconn.ConnectError
	return errors.As(err, &failed) || errors.Is(err, context.DeadlineExceeded) || pgconn.SafeToRetry(err)
}

// connect may be called again after a failure, as may begin.
func (b *Broker) connect(ctx context.Context) (err error) {
	ctx, cancel := b.within(ctx)
	defer cancel()
	if err := b.initSchema(ctx); err != nil {
		return err
	}
	if b.db == nil {
		if b.db, err = pgxpool.NewWithConfig(b.lifetime, b.connections.pool); err != nil {
			return err
		}
	}
	if b.alone {
		return nil
	}
	if err := b.connectReplicas(); err != nil {
		return err
	}
	return b.probeHashes(ctx)
}

// begin finds the rows where the node begins to read.
func (b *Broker) begin(ctx context.Context) error {
	ctx, cancel := b.within(ctx)
	defer cancel()
	if b.alone {
		return b.control.connect(ctx)
	}
	b.feed = changefeed.New(changefeed.Config{
		Interval: b.cfg.PollInterval, Batch: b.cfg.BatchSize, Timeout: b.cfg.Timeout, Connections: b.made.Load,
		Listen: b.connections.listen, Fanout: b.fanout(), Logger: b.cfg.Logger,
	}, b.table(streamTable, b.sets.Stream), b.table(mapTable, b.sets.Map))
	if err := b.feed.Begin(ctx, b.db); err != nil {
		return err
	}
	return b.control.connect(ctx)
}

// within bounds a step of the start: others may be making the tables.
func (b *Broker) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(b.cfg.Timeout, time.Minute))
}

func (b *Broker) disconnect() {
	b.connecting.Lock()
	defer b.connecting.Unlock()
	b.hangUp()
}

func (b *Broker) hangUp() {
	if b.replicas != nil {
		b.replicas.Close()
	}
	if b.db != nil {
		b.db.Close()
	}
}

func (b *Broker) initSchema(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, b.connections.pool.ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var work []schema.Work
	for _, set := range b.sets.All {
		if b.alone && set != b.sets.Control {
			continue
		}
		w := schema.Work{Set: set, Listens: b.cfg.UseNotify}
		switch set {
		case b.sets.Stream, b.sets.Map:
			w.Shards = b.cfg.NumShards
		case b.sets.Control:
			w.Shards = b.cfg.ControlNumShards
		default: // the other variant is there for applications
			w.Listens = false
		}
		work = append(work, w)
	}
	return schema.Init(ctx, conn, work, b.cfg.PartitionLookaheadDays, b.cfg.SkipSchemaInit)
}

// probeHashes finds out whether the server has the hashes of schema.HashText. A big-endian server has others: then it
// sends all rows.
func (b *Broker) probeHashes(ctx context.Context) error {
	b.hashes = true
	rows, err := b.db.Query(ctx, "SELECT t, hashtext(t) FROM unnest($1::text[]) t", []string{"", "a", "abcd", "chat:index", "news:1234567", "a longer name of a channel, äöü"})
	if err != nil {
		return err
	}
	var text string
	var hash int32
	_, err = pgx.ForEachRow(rows, []any{&text, &hash}, func() error {
		b.hashes = b.hashes && uint32(hash) == schema.HashText(text)
		return nil
	})
	return err
}

// shardsKnown tells that the rows of a channel are in the shard where this node looks for them.
func (b *Broker) shardsKnown() bool { return b.hashes && b.trouble.Load() == nil }

func (b *Broker) table(table int, set *schema.Set) *changefeed.Table {
	current := make([]schema.Row, b.cfg.NumShards)
	return &changefeed.Table{
		Name: set.Outbox, Notify: set.Notify, Shards: b.cfg.NumShards, Columns: schema.Columns,
		Wanted: "x.channel = ANY ($3::text[])",
		Want: func(shard int) (arg any, all bool, unchanged func() bool) {
			return b.subs.Wanted(shard, !b.shardsKnown())
		},
		Scan:    func(shard int, rows pgx.Rows, ahead ...any) error { return current[shard].Scan(rows, ahead...) },
		Deliver: func(shard int, id int64) { b.deliver(table, shard, id, &current[shard]) },
		Encode:  func(shard int, dst []byte) []byte { return current[shard].Append(dst) },
		Decode:  func(shard int, data []byte) error { return current[shard].Decode(data) },
		Reached: func(shard int, id int64, created time.Time) {
			b.floors.At(table, shard).Raise(standby.Row{ID: id, Created: created})
		},
		Lost: func(shard int, id int64, created time.Time) {
			b.subs.Lost(table, shard)
			b.floors.At(table, shard).Reset(standby.Row{ID: id, Created: created})
			b.handler.HandleLoss(func(ch string) bool { return !b.hashes || schema.ShardOf(ch, b.cfg.NumShards) == shard })
		},
	}
}

// deliver hands over a row. The shard's lock keeps the calls for a channel apart: both tables have some.
func (b *Broker) deliver(table, shard int, id int64, r *schema.Row) {
	if !b.subs.Has(r.Channel, table, id) {
		return
	}
	defer b.subs.Exclude(shard)()
	switch r.Kind {
	case schema.KindPublication:
		b.handler.HandlePublication(r.Channel, r.Event())
	case schema.KindJoin:
		b.handler.HandleJoin(r.Channel, r.Client())
	case schema.KindLeave:
		b.handler.HandleLeave(r.Channel, r.Client())
	case schema.KindCleared:
		ch := r.Channel
		b.handler.HandleLoss(func(lost string) bool { return lost == ch })
	}
}

func (b *Broker) start() {
	b.slots = make(chan struct{}, max(1, b.cfg.PoolSize/2))
	b.control.start()
	b.background.Go(func() { b.upkeep(b.lifetime) })
	b.background.Go(func() { b.prove(b.lifetime) })
	if b.alone {
		return
	}
	for shard := range b.cfg.NumShards {
		b.streams = append(b.streams, b.streamQueue(shard))
		b.changes = append(b.changes, b.mapQueue(shard))
	}
	b.background.Go(func() { b.feed.Run(b.lifetime) })
	b.background.Go(func() { b.expireMaps(b.lifetime) })
}

// Close implements broker.Broker. If ctx ends before the handler calls under way, Close returns the context's error, and
// the broker is freed when they return.
func (b *Broker) Close(ctx context.Context) error {
	before := b.lifecycle.Close()
	b.end()
	if before != enginekit.StateRunning {
		if before != enginekit.StateClosed {
			b.disconnect()
		}
		return b.closeFanout(ctx)
	}
	return enginekit.Await(ctx, func() {
		for shard := range b.streams {
			b.streams[shard].Close()
			b.changes[shard].Close()
		}
		b.subs.Close()
		b.control.stop()
		_ = b.closeFanout(ctx)
		b.background.Wait()
		b.hangUp()
	})
}

// shardOf returns the shard of a channel, or an error if the broker does not run or the name is wrong.
func (b *Broker) shardOf(ctx context.Context, ch string) (int, error) {
	if err := b.lifecycle.Check(ctx); err != nil {
		return 0, err
	}
	return schema.ShardOf(ch, b.cfg.NumShards), schema.CheckName(ch)
}

func (b *Broker) goes(run func()) bool {
	return b.lifecycle.UnlessClosed(func() { b.background.Go(run) })
}

func (b *Broker) wake(table, shard int) {
	if !b.hashes {
		b.feed.Look()
		return
	}
	b.feed.Wake(table, shard)
}

func (b *Broker) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", b.part, err)
}

// Subscribe implements broker.Broker. It asks the server for the newest rows: only later rows are delivered.
func (b *Broker) Subscribe(ctx context.Context, channels ...string) error {
	if err := b.lifecycle.Check(ctx); err != nil {
		return err
	}
	for _, ch := range channels {
		if err := schema.CheckName(ch); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	return b.explain(b.subs.Subscribe(ctx, channels))
}

// unread returns the newest rows of shards that this node has not read yet, or nil if channels may have rows elsewhere.
func (b *Broker) unread(shards []int32) ([]changefeed.RowIDs, error) {
	if !b.shardsKnown() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(b.lifetime, b.cfg.Timeout)
	defer cancel()
	newest := make([]changefeed.RowIDs, len(shards))
	return newest, b.feed.Unread(ctx, shards, func(table, i int, id int64, created time.Time) {
		newest[i][table] = id
		// The node will not see these rows: a standby must have them to answer.
		b.floors.At(table, int(shards[i])).Raise(standby.Row{ID: id, Created: created})
	})
}

// Unsubscribe implements broker.Broker.
func (b *Broker) Unsubscribe(ctx context.Context, channels ...string) error {
	if err := b.lifecycle.Check(ctx); err != nil {
		return err
	}
	b.subs.Remove(channels)
	return nil
}

// PublishJoin implements broker.Broker.
func (b *Broker) PublishJoin(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.tell(ctx, ch, schema.KindJoin, info)
}

// PublishLeave implements broker.Broker.
func (b *Broker) PublishLeave(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.tell(ctx, ch, schema.KindLeave, info)
}
