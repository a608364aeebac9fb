package changefeed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/logging"
)

// Config of a Feed.
type Config struct {
	// Interval is the time between two looks at the tables, and Batch the most rows of a page.
	Interval time.Duration
	Batch    int
	// Timeout bounds each statement, and the delivery of a page.
	Timeout time.Duration
	// Connections returns how many connections were made. It is called often.
	Connections func() uint64
	// Listen is the connection for notifications; nil: none.
	Listen *pgx.ConnConfig
	// With a Fanout all tables have the same number of shards. Nil: each node reads everything.
	Fanout *Fanout
	Logger *slog.Logger
}

// Feed follows tables of one database.
type Feed struct {
	cfg     Config
	db      *pgxpool.Pool
	tables  []*Table
	workers [][]*worker // by table and shard
	peek    string
	unread  string
	kick    chan struct{} // has the feed look at the tables now

	alone   atomic.Bool // the fan-out is down
	traffic traffic

	rows    atomic.Uint64
	delay   atomic.Int64 // of the last look
	outages atomic.Uint64
	outage  logging.Outage
}

// New returns a feed of tables.
func New(cfg Config, tables ...*Table) *Feed {
	f := &Feed{cfg: cfg, tables: tables, kick: make(chan struct{}, 1)}
	var looks, news []string
	for i, t := range tables {
		workers := make([]*worker, t.Shards)
		for shard := range workers {
			workers[shard] = newWorker(f, i, t, shard)
		}
		f.workers = append(f.workers, workers)
		// Limits make each subquery one step in an index, whatever the planner estimates.
		looks = append(looks, fmt.Sprintf(`SELECT %d, c.shard FROM unnest($%d::int[], $%d::bigint[]) AS c (shard, id)
			WHERE (SELECT x.id FROM %s x WHERE x.shard_id = c.shard AND x.id > c.id ORDER BY x.id LIMIT 1) IS NOT NULL`, i, 2*i+1, 2*i+2, t.Name))
		news = append(news, fmt.Sprintf(`SELECT %d, c.ordinal, n.id, n.created_at FROM unnest($1::int[], $%d::bigint[]) WITH ORDINALITY AS c (shard, id, ordinal),
			LATERAL (SELECT x.id, x.created_at FROM %s x WHERE x.shard_id = c.shard AND x.id > c.id ORDER BY x.id DESC LIMIT 1) AS n`, i, i+2, t.Name))
	}
	f.unread = strings.Join(news, " UNION ALL ")
	f.peek = strings.Join(looks, " UNION ALL ") + fmt.Sprintf(
		" UNION ALL SELECT %d, 0 WHERE pg_is_in_recovery() UNION ALL SELECT %d, 0 WHERE current_setting('transaction_read_only') = 'on'", standby, readOnly)
	return f
}

func replaceTable(condition string) string { return strings.ReplaceAll(condition, "x.", "y.") }

// Begin makes the feed deliver all rows that are committed from now on, once it runs.
func (f *Feed) Begin(ctx context.Context, db *pgxpool.Pool) error {
	f.db = db
	for _, workers := range f.workers {
		for _, w := range workers {
			if err := w.begin(ctx, db); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run delivers until ctx ends.
func (f *Feed) Run(ctx context.Context) {
	var group sync.WaitGroup
	for _, workers := range f.workers {
		for _, w := range workers {
			group.Go(func() { w.run(ctx) })
			if f.cfg.Fanout != nil {
				group.Go(func() { w.send(ctx) })
			}
		}
	}
	if f.cfg.Fanout != nil {
		group.Go(func() { f.lead(ctx) })
		group.Go(func() { f.recheck(ctx) })
	}
	if f.cfg.Listen != nil {
		group.Go(func() { f.listen(ctx) })
	}
	f.scout(ctx)
	group.Wait()
}

// Wake makes the feed read a shard at once, because a row was committed. If another node reads the shard for all, that
// node finds the row.
func (f *Feed) Wake(table, shard int) {
	if w := f.workers[table][shard]; w.reads() {
		w.signal()
	}
}

// Look makes the feed look at all shards at once.
func (f *Feed) Look() { enginekit.Signal(f.kick) }

// Lags returns by shard the age of the newest row at its delivery, the greatest of all tables.
func (f *Feed) Lags() []time.Duration {
	var lags []time.Duration
	for _, workers := range f.workers {
		lags = append(lags, make([]time.Duration, max(0, len(workers)-len(lags)))...)
		for shard, w := range workers {
			lags[shard] = max(lags[shard], time.Duration(w.lag.Load()))
		}
	}
	return lags
}

// minLookPause is how long notifications gather.
const minLookPause = 5 * time.Millisecond

// scout finds shards with new rows, in one query, and wakes their workers.
func (f *Feed) scout(ctx context.Context) {
	ticker := time.NewTicker(f.cfg.Interval)
	defer ticker.Stop()
	for {
		err := f.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if f.outage.Fail(err) == 1 {
				f.cfg.Logger.Warn("postgres: looking for new rows fails, trying again", "error", err)
			}
		default:
			if failures, _ := f.outage.End(); failures > 0 {
				f.outages.Add(1)
				f.cfg.Logger.Info("postgres: looking for new rows again")
			}
		}
		looked := time.Now()
		select {
		case <-ticker.C:
		case <-f.kick:
			enginekit.Sleep(ctx, minLookPause-time.Since(looked))
		case <-ctx.Done():
			return
		}
	}
}

// Rows of a look about the server. Other rows have the number of a table.
const (
	standby  = -1
	readOnly = -2
)

func (f *Feed) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	begin := time.Now()
	if x := f.cfg.Fanout; x != nil {
		f.alone.Store(x.Down())
	}
	var args []any
	some := false
	for _, workers := range f.workers {
		shards, ids := make([]int32, 0, len(workers)), make([]int64, 0, len(workers))
		for i, w := range workers {
			if w.reads() {
				shards, ids = append(shards, int32(i)), append(ids, w.cursor.Load())
				some = true
			}
		}
		args = append(args, shards, ids)
	}
	if !some {
		return nil
	}
	rows, err := f.db.Query(ctx, f.peek, args...)
	if err != nil {
		return err
	}
	var table, shard int
	var unwritable error
	_, err = pgx.ForEachRow(rows, []any{&table, &shard}, func() error {
		switch table {
		case standby:
			unwritable = errors.New("the server is a standby, which cannot be written to")
		case readOnly: // so is a standby
			unwritable = cmp.Or(unwritable, errors.New("transactions are read-only: nothing can be published"))
		default:
			f.Wake(table, shard)
		}
		return nil
	})
	if err = cmp.Or(err, unwritable); err == nil {
		f.delay.Store(int64(time.Since(begin)))
	}
	return err
}

// Unread calls newest with the newest row of each table and of shards[i], if it has rows that are not read yet.
func (f *Feed) Unread(ctx context.Context, shards []int32, newest func(table, i int, id int64, created time.Time)) error {
	args := []any{shards}
	for _, workers := range f.workers {
		ids := make([]int64, len(shards))
		for i, shard := range shards {
			ids[i] = workers[shard].cursor.Load()
		}
		args = append(args, ids)
	}
	rows, err := f.db.Query(ctx, f.unread, args...)
	if err != nil {
		return err
	}
	var table, ordinal int
	var id int64
	var created time.Time
	_, err = pgx.ForEachRow(rows, []any{&table, &ordinal, &id, &created}, func() error {
		newest(table, ordinal-1, id, created)
		return nil
	})
	return err
}

var failedListens = enginekit.Backoff{Min: time.Second, Max: 30 * time.Second}

// listen looks at the tables when notifications come. Without them the interval is enough.
func (f *Feed) listen(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		err := f.listenOnce(ctx, func() { failures = 0 })
		if ctx.Err() != nil {
			return
		}
		pause := failedListens.Pause(failures)
		f.cfg.Logger.Warn("postgres: no notifications, polling", "again in", pause, "error", err)
		enginekit.Sleep(ctx, pause)
		failures++
	}
}

func (f *Feed) listenOnce(ctx context.Context, listening func()) error {
	conn, err := pgx.ConnectConfig(ctx, f.cfg.Listen)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	for _, t := range f.tables {
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{t.Notify}.Sanitize()); err != nil {
			return err
		}
	}
	listening()
	f.Look()
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
		f.Look()
	}
}

// Health returns the duration of the last look, the outages, and the present error.
func (f *Feed) Health() (delay time.Duration, outages uint64, err error) {
	err = f.outage.Err()
	f.each(func(w *worker) {
		if err == nil {
			err = w.outage.Err()
		}
	})
	return time.Duration(f.delay.Load()), f.outages.Load(), err
}

// Rows is how many rows came.
func (f *Feed) Rows() uint64 { return f.rows.Load() }
