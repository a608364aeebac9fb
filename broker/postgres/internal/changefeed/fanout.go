package changefeed

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/logging"
)

// With a Fanout, one node reads a shard and sends the rows to the others. A receiving node checks that no row is
// missing, and reads the database otherwise. So the cursor of each node counts; who reads a shard, and rows that arrive
// twice, matter for speed alone.
type Fanout struct {
	// Publish sends a message of at most MaxMessage bytes to all nodes, for Feed.Receive.
	Publish func(ctx context.Context, table, shard int, message []byte) error
	// Down tells that messages do not arrive: then all nodes read the database.
	Down func() bool
	// Lead is the connection whose locks tell which node reads a shard, Key the first part of the locks' keys.
	Lead *pgx.ConnConfig
	Key  int32
	// Safety bounds how long a missing message stays unnoticed.
	Safety time.Duration
}

const (
	// MaxMessage is the most bytes of a message. All nodes read a larger row from the database.
	MaxMessage = 900 << 10
	// A message of fullMessage bytes is sent before the page ends.
	fullMessage = 128 << 10
	// Messages of a shard that wait; more are dropped.
	maxSending, maxReceived = 8, 64
	maxPublish              = 5 * time.Second
	// election is how often a node tries to get shards that no node reads, and checks its own.
	election = time.Second
)

type traffic struct {
	received, holes, unsent atomic.Uint64
	outage                  logging.Outage // of publishing
}

// Receive takes a message that any node has published.
func (f *Feed) Receive(table, shard int, message []byte) {
	if f.cfg.Fanout == nil || table >= len(f.workers) || shard >= len(f.workers[table]) {
		return
	}
	w := f.workers[table][shard]
	select {
	case w.inbox <- message:
	default: // the worker will see that something is missing, or read that
		w.signal()
	}
}

// Missed makes all shards read the database, because messages may be missing.
func (f *Feed) Missed() {
	f.each(func(w *worker) { w.signal() })
}

func (f *Feed) each(do func(*worker)) {
	for _, workers := range f.workers {
		for _, w := range workers {
			do(w)
		}
	}
}

// Traffic counts rows from other nodes, holes in them, rows that could not be sent, and the shards that this node reads
// for all.
func (f *Feed) Traffic() (received, holes, unsent uint64, led int) {
	f.each(func(w *worker) {
		if w.led.Load() {
			led++
		}
	})
	return f.traffic.received.Load(), f.traffic.holes.Load(), f.traffic.unsent.Load(), led
}

func (w *worker) reads() bool { return w.feed.cfg.Fanout == nil || w.led.Load() || w.feed.alone.Load() }

// lead makes this node read shards for all nodes while it has their locks.
func (f *Feed) lead(ctx context.Context) {
	var outage logging.Outage
	for ctx.Err() == nil {
		err := f.leadOnce(ctx, func() { outage.End() })
		f.each(func(w *worker) { w.led.Store(false) })
		if ctx.Err() != nil {
			return
		}
		if outage.Fail(err) == 1 {
			f.cfg.Logger.Warn("postgres: the connection is lost whose locks tell who reads for all, trying again", "error", err)
		}
		enginekit.Sleep(ctx, election)
	}
}

func (f *Feed) leadOnce(ctx context.Context, connected func()) error {
	conn, err := pgx.ConnectConfig(ctx, f.cfg.Fanout.Lead)
	if err != nil {
		return err
	}
	defer func() { // its end frees the locks
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	for {
		if err := f.elect(ctx, conn); err != nil {
			return err
		}
		connected()
		enginekit.Sleep(ctx, election)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// elect takes the free locks. It also shows whether the connection still is there.
func (f *Feed) elect(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	free := []int32{} // not nil, which is NULL
	for shard, w := range f.workers[0] {
		if !w.led.Load() {
			free = append(free, int32(shard))
		}
	}
	rows, err := conn.Query(ctx, "SELECT s FROM unnest($1::int[]) s WHERE pg_try_advisory_lock($2::int, s)", free, f.cfg.Fanout.Key)
	if err != nil {
		return err
	}
	var shard int
	_, err = pgx.ForEachRow(rows, []any{&shard}, func() error {
		for _, workers := range f.workers {
			workers[shard].led.Store(true)
			workers[shard].signal()
		}
		return nil
	})
	return err
}

// recheck reads the shards of other nodes now and then: it may be unnoticed that the last message is missing, or that
// the database has lost rows.
func (f *Feed) recheck(ctx context.Context) {
	enginekit.Every(ctx, f.cfg.Fanout.Safety, func() {
		f.each(func(w *worker) {
			if !w.led.Load() {
				w.doubt.Store(true)
				w.signal()
			}
		})
	})
}

// message is made of rows that were read one after the other.
type message struct {
	prev        int64 // id of the row before
	prevCreated time.Time
	last        int64
	created     time.Time
	body        []byte // of each row: the difference to the id before, the length, and the result of Table.Encode
}

const messageVersion = 1

func (m *message) add(id int64, created time.Time, row []byte) {
	m.body = binary.AppendUvarint(m.body, uint64(id-m.last))
	m.body = binary.AppendUvarint(m.body, uint64(len(row)))
	m.body = append(m.body, row...)
	m.last, m.created = id, created
}

func (m *message) begin(prev int64, created time.Time) {
	*m = message{prev: prev, prevCreated: created, last: prev}
}

func (m *message) encode() []byte {
	dst := append(make([]byte, 0, len(m.body)+41), messageVersion)
	for _, n := range []int64{m.prev, micros(m.prevCreated), m.last, micros(m.created)} {
		dst = binary.AppendVarint(dst, n)
	}
	return append(dst, m.body...)
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

var errMessage = errors.New("not a message of this program")

func (m *message) decode(data []byte) error {
	if len(data) == 0 || data[0] != messageVersion {
		return errMessage
	}
	data = data[1:]
	var numbers [4]int64
	for i := range numbers {
		v, n := binary.Varint(data)
		if n <= 0 {
			return errMessage
		}
		numbers[i], data = v, data[n:]
	}
	m.prev, m.prevCreated, m.last, m.created = numbers[0], timeOf(numbers[1]), numbers[2], timeOf(numbers[3])
	m.body = data
	if m.last <= m.prev || m.prev < 0 || m.created.IsZero() {
		return errMessage
	}
	return nil
}

// next takes a row from the front of the body. id is the row before.
func (m *message) next(id int64) (next int64, row []byte, err error) {
	step, n := binary.Uvarint(m.body)
	if n <= 0 {
		return 0, nil, errMessage
	}
	size, k := binary.Uvarint(m.body[n:])
	if k <= 0 || size > uint64(len(m.body)-n-k) || step == 0 || step > uint64(m.last-id) {
		return 0, nil, errMessage
	}
	row = m.body[n+k:][:size:size]
	m.body = m.body[n+k+int(size):]
	return id + int64(step), row, nil
}

func (w *worker) gather(id int64, created time.Time) {
	w.row = w.table.Encode(w.shard, w.row[:0])
	w.message.add(id, created, w.row)
	if len(w.message.body) >= fullMessage {
		w.flush()
	}
}

func (w *worker) flush() {
	m := &w.message
	if len(m.body) == 0 {
		return
	}
	if len(m.body) > MaxMessage-64 {
		w.feed.traffic.unsent.Add(1)
	} else {
		select {
		case w.sending <- m.encode():
		default: // others will notice that it is missing
			w.feed.traffic.unsent.Add(1)
		}
	}
	m.begin(m.last, m.created)
}

func (w *worker) send(ctx context.Context) {
	f := w.feed
	for {
		var data []byte
		select {
		case data = <-w.sending:
		case <-ctx.Done():
			return
		}
		within, cancel := context.WithTimeout(ctx, maxPublish)
		err := f.cfg.Fanout.Publish(within, w.index, w.shard, data)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.traffic.unsent.Add(1)
			if f.traffic.outage.Fail(err) == 1 {
				f.cfg.Logger.Warn("postgres: rows cannot be sent to other nodes, which read them from the database", "error", err)
			}
		default:
			if failures, _ := f.traffic.outage.End(); failures > 0 {
				f.cfg.Logger.Info("postgres: rows are sent to other nodes again")
			}
		}
	}
}

// apply delivers the rows of a message behind the cursor. ok is false if the database must be read: an earlier row is
// missing, or the message contradicts the rows that were read.
func (w *worker) apply(data []byte) (ok bool) {
	var m message
	if err := m.decode(data); err != nil {
		w.feed.traffic.holes.Add(1)
		return false
	}
	cursor := w.cursor.Load()
	switch {
	case m.last < cursor:
		return true
	case m.last == cursor:
		return w.same(m.created)
	case m.prev > cursor:
		w.feed.traffic.holes.Add(1)
		return false
	case m.prev == cursor && !w.same(m.prevCreated):
		return false
	}
	w.reached(m.last, m.created)
	w.created = time.Time{}
	for id := m.prev; id < m.last; {
		next, row, err := m.next(id)
		id = next
		if err == nil && id > cursor {
			if err = w.table.Decode(w.shard, row); err == nil {
				w.table.Deliver(w.shard, id)
				w.cursor.Store(id)
				w.feed.traffic.received.Add(1)
			}
		}
		if err != nil {
			w.feed.traffic.holes.Add(1)
			return false
		}
	}
	w.created = m.created
	w.noteLag(m.created)
	return true
}

// same tells whether the row at the cursor was made at this time. If not, the database went back, and ids come again.
func (w *worker) same(created time.Time) bool {
	if created.IsZero() || w.created.IsZero() || created.Equal(w.created) {
		return true
	}
	w.doubt.Store(true)
	return false
}
