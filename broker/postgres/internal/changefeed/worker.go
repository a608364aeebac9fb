// Package changefeed follows tables into which others insert rows: it reads the rows of each shard in the order of their
// ids, each row once, and delivers the rows of the node's channels. A transaction that inserts a row holds a lock on the
// shard until the commit, so ids are committed in their order: a reader of a row has read all rows before it, and a
// cursor per shard is enough.
package changefeed

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/logging"
)

// Table is an outbox. The fields are constant.
type Table struct {
	Name string
	// Notify is the channel of notifications of new rows.
	Notify string
	Shards int
	// Columns of table x that Scan needs.
	Columns string
	// Wanted is a condition on x for rows that are needed, with $3 for an argument such as text[].
	Wanted string
	// Want returns the argument. Unless all is set, the server leaves out rows that fail Wanted. If current returns
	// false when the rows come, they are read once more.
	Want func(shard int) (arg any, all bool, current func() bool)
	// Scan reads a row, whose first columns have the targets ahead, and keeps it for Deliver.
	Scan func(shard int, rows pgx.Rows, ahead ...any) error
	// Deliver hands over the row of Scan. Shards deliver at the same time.
	Deliver func(shard int, id int64)
	// Encode appends the row of Scan, and Decode keeps an encoded one for Deliver. Only a Fanout needs them.
	Encode func(shard int, dst []byte) []byte
	Decode func(shard int, data []byte) error
	// Reached is called before rows are handed over or passed over: id is the last of them, made at created, which is
	// zero if that is not known yet; then there is another call with it. Nil: no call.
	Reached func(shard int, id int64, created time.Time)
	// Lost is called when the database lost rows that were delivered, so that others may have been passed over. id and
	// created are the newest row that is left, 0 for none.
	Lost func(shard int, id int64, created time.Time)
}

// InOrder makes later statements of its transaction read rows in the order of an index. Without statistics, which the
// partition of a day lacks at first, the planner would rather sort all rows that wait.
const InOrder = "SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true)"

// worker reads a shard. Only its goroutine uses it, apart from the atomics.
type worker struct {
	feed  *Feed
	table *Table
	index int // of the table
	shard int
	wake  chan struct{}

	cursor  atomic.Int64 // id of the last row that was read
	created time.Time    // of that row; zero if there was none
	checked uint64       // connections when the server was known to have the row
	outage  logging.Outage
	lag     atomic.Int64 // how old the last row was when it was delivered

	plain, filtered string // statements

	// With a Fanout:
	led     atomic.Bool // this node reads for all
	doubt   atomic.Bool // whether the server has the last row, in spite of checked
	inbox   chan []byte // messages of others; nil without a Fanout
	sending chan []byte
	message message
	row     []byte // scratch
}

func newWorker(f *Feed, index int, t *Table, shard int) *worker {
	w := &worker{feed: f, table: t, index: index, shard: shard, wake: make(chan struct{}, 1)}
	if f.cfg.Fanout != nil {
		w.inbox, w.sending = make(chan []byte, maxReceived), make(chan []byte, maxSending)
	}
	page := fmt.Sprintf(`%s FROM %s x WHERE x.shard_id = $1 AND x.id > $2 ORDER BY x.id LIMIT %d`, "%s", t.Name, f.cfg.Batch)
	w.plain = fmt.Sprintf("SELECT x.id, true, 0, x.created_at, x.id, "+page, t.Columns)
	// The last row of the page tells how far it goes. Its columns are not sent if it is not wanted.
	w.filtered = fmt.Sprintf(`SELECT p.id, p.wanted, p.n, p.created_at, p.last, %s FROM (
		SELECT y.*, (%s) AS wanted, max(y.id) OVER () AS last, count(*) OVER () AS n FROM (%s) y
	) p LEFT JOIN LATERAL (SELECT p.*) x ON p.wanted WHERE p.wanted OR p.id = p.last ORDER BY p.id`,
		t.Columns, replaceTable(t.Wanted), fmt.Sprintf("SELECT "+page, "x.*"))
	return w
}

// begin puts the cursor behind all rows that are there.
func (w *worker) begin(ctx context.Context, db *pgxpool.Pool) error {
	w.checked = w.feed.cfg.Connections()
	id, created, err := w.newest(ctx, db)
	if err != nil {
		return err
	}
	w.reached(id, created)
	w.cursor.Store(id)
	w.created = created
	return nil
}

func (w *worker) reached(id int64, created time.Time) {
	if w.table.Reached != nil {
		w.table.Reached(w.shard, id, created)
	}
}

func (w *worker) newest(ctx context.Context, db *pgxpool.Pool) (id int64, created time.Time, err error) {
	batch := ordered("SELECT id, created_at FROM "+w.table.Name+" WHERE shard_id = $1 ORDER BY id DESC LIMIT 1", w.shard)
	results := db.SendBatch(ctx, batch)
	defer func() { err = cmp.Or(err, results.Close()) }()
	if _, err := results.Exec(); err != nil {
		return 0, created, err
	}
	err = results.QueryRow().Scan(&id, &created)
	if err == pgx.ErrNoRows { //nolint:errorlint // QueryRow returns it as it is
		return 0, created, nil
	}
	return id, created, err
}

func ordered(sql string, args ...any) *pgx.Batch {
	var batch pgx.Batch
	batch.Queue(InOrder)
	batch.Queue(sql, args...)
	return &batch
}

var failedReads = enginekit.Backoff{Min: 20 * time.Millisecond, Max: time.Second}

func (w *worker) run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		more, err := w.read(ctx)
		if err != nil && ctx.Err() == nil {
			w.fail(err)
			enginekit.Sleep(ctx, failedReads.Pause(failures))
			failures++
			continue
		}
		failures = 0
		w.recovered()
		if !more {
			w.await(ctx)
		}
	}
}

// await returns when the database must be read. Until then it delivers what other nodes have read.
func (w *worker) await(ctx context.Context) {
	for {
		select {
		case <-w.wake:
			return
		case m := <-w.inbox:
			if !w.apply(m) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (w *worker) fail(err error) {
	if w.outage.Fail(err) == 1 {
		w.feed.cfg.Logger.Warn("postgres: reading new rows fails, trying again", "table", w.table.Name, "shard", w.shard, "error", err)
	}
}

func (w *worker) recovered() {
	if failures, _ := w.outage.End(); failures > 0 {
		w.feed.cfg.Logger.Info("postgres: reading new rows again", "table", w.table.Name, "shard", w.shard)
	}
}

// check makes sure, after new connections or doubts, that the server still has the last row that was read. If not, its
// data went back (a standby that was behind became the primary), and ids come again.
func (w *worker) check(ctx context.Context) (err error) {
	connections := w.feed.cfg.Connections()
	doubt := w.doubt.Swap(false)
	if connections == w.checked && !doubt || w.created.IsZero() {
		w.checked = connections
		return nil
	}
	defer func() {
		if err != nil {
			w.doubt.Store(true)
		}
	}()
	var there bool
	sql := "SELECT EXISTS (SELECT FROM " + w.table.Name + " WHERE shard_id = $1 AND id = $2 AND created_at = $3)"
	if err := w.feed.db.QueryRow(ctx, sql, w.shard, w.cursor.Load(), w.created).Scan(&there); err != nil {
		return err
	}
	if !there {
		id, created, err := w.newest(ctx, w.feed.db)
		if err != nil {
			return err
		}
		last, lastCreated := id, created
		if id > w.cursor.Load() {
			created = time.Time{} // the next row that is read counts
		} else {
			w.cursor.Store(id)
		}
		w.created = created
		w.feed.cfg.Logger.Warn("postgres: the last row that was read is gone; if another server took over, others may be as well", "table", w.table.Name, "shard", w.shard)
		w.table.Lost(w.shard, last, lastCreated)
	}
	w.checked = connections
	return nil
}

func (w *worker) read(ctx context.Context) (more bool, err error) {
	again := true
	for try := 0; again; try++ {
		if err := w.check(ctx); err != nil {
			return false, err
		}
		arg, all, current := w.table.Want(w.shard)
		if try > 0 || all || w.led.Load() { // rather all rows than again and again
			more, err = w.page(ctx, w.plain, nil, func() bool { return true }, &again)
		} else {
			more, err = w.page(ctx, w.filtered, []any{arg}, current, &again)
		}
	}
	return more, err
}

// page delivers the rows of a statement while they come. again is set if others are wanted by now, or if the connection
// is new.
func (w *worker) page(ctx context.Context, sql string, args []any, current func() bool, again *bool) (more bool, err error) {
	*again = false
	ctx, cancel := context.WithTimeout(ctx, w.feed.cfg.Timeout)
	defer cancel()
	results := w.feed.db.SendBatch(ctx, ordered(sql, append([]any{w.shard, w.cursor.Load()}, args...)...))
	defer func() { err = cmp.Or(err, results.Close()) }()
	if _, err := results.Exec(); err != nil {
		return false, err
	}
	rows, err := results.Query()
	if err != nil {
		return false, err
	}
	defer rows.Close()
	lead := w.led.Load() && sql == w.plain
	if lead {
		w.message.begin(w.cursor.Load(), w.created)
		defer w.flush()
	}
	var id, last int64
	var created time.Time
	var wanted bool
	var n, got int
	for rows.Next() {
		if err := w.table.Scan(w.shard, rows, &id, &wanted, &n, &created, &last); err != nil {
			return false, fmt.Errorf("row %s of %s: %w", strconv.FormatInt(id, 10), w.table.Name, err)
		}
		if got == 0 {
			if last > id { // rows that were not sent are passed over
				w.reached(last, time.Time{})
			}
			// The statement saw everything that was committed before its first row came; a channel that is wanted later
			// needs later rows only.
			if !current() || w.feed.cfg.Connections() != w.checked {
				*again = true
				return false, nil
			}
		}
		got++
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		w.reached(id, created)
		if wanted {
			w.table.Deliver(w.shard, id)
		}
		w.cursor.Store(id)
		w.created = created
		if lead {
			w.gather(id, created)
		}
	}
	if got > 0 {
		w.noteLag(created)
	}
	w.feed.rows.Add(uint64(got))
	return max(n, got) == w.feed.cfg.Batch, rows.Err()
}

// noteLag: the clocks of the server and of the node may differ.
func (w *worker) noteLag(created time.Time) { w.lag.Store(int64(max(time.Since(created), 0))) }

// signal makes the worker read the shard.
func (w *worker) signal() { enginekit.Signal(w.wake) }
