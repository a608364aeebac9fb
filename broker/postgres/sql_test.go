package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/channel"
)

// TestTransaction: publications of an application's transaction are delivered at the commit, in order and once, and
// never if it is rolled back.
func TestTransaction(t *testing.T) {
	d := newDatabase(t)
	got := newEvents()
	b := d.run(postgres.Config{PollInterval: 10 * time.Millisecond}, got)
	must(t, b.Subscribe(t.Context(), "a", "b", "last"))
	conn := d.connect()
	publish := func(tx pgx.Tx, ch, data string) {
		t.Helper()
		_, err := tx.Exec(t.Context(), "SELECT cf_stream_publish(p_channel => $1, p_data => $2)", ch, data)
		must(t, err)
	}
	for _, commit := range []bool{false, true} {
		tx, err := conn.Begin(t.Context())
		must(t, err)
		for i := range 3 {
			publish(tx, "a", fmt.Sprintf("[%d, %v]", i, commit))
			publish(tx, "b", fmt.Sprint(i))
		}
		if !commit {
			must(t, tx.Rollback(t.Context()))
			continue
		}
		must(t, tx.Commit(t.Context()))
	}
	d.exec(`SELECT cf_stream_publish('last', '"x"')`)
	all := map[string][]string{}
	for n := 0; n < 7; n++ {
		e := got.next(t)
		all[e.ch] = append(all[e.ch], e.String())
	}
	for ch, want := range map[string]string{
		"a": `a=[0, true]@1 a=[1, true]@2 a=[2, true]@3`, "b": `b=0@1 b=1@2 b=2@3`, "last": `last="x"@1`,
	} {
		if text := strings.Join(all[ch], " "); text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
}

func (d *database) publishes(sql string, args ...any) (out struct {
	id         int64
	offset     int64
	epoch      string
	suppressed bool
	reason     *string
}) {
	d.tb.Helper()
	err := d.connect().QueryRow(d.tb.Context(), sql, args...).Scan(&out.id, &out.offset, &out.epoch, &out.suppressed, &out.reason)
	if err != nil {
		d.tb.Fatalf("%s: %v", sql, err)
	}
	return out
}

func (d *database) fails(sql string, args ...any) *pgconn.PgError {
	d.tb.Helper()
	_, err := d.connect().Exec(d.tb.Context(), sql, args...)
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		d.tb.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// TestStreamFunctions calls the functions of docs/postgres.md by the names of their parameters.
func TestStreamFunctions(t *testing.T) {
	d := newDatabase(t)
	got := newEvents()
	b := d.run(postgres.Config{UseNotify: true, PollInterval: time.Hour}, got)
	must(t, b.Subscribe(t.Context(), "ch", "joins"))

	first := d.publishes(`SELECT * FROM cf_stream_publish(p_channel => 'ch', p_data => '{"b": 1,  "a": 2}', p_tags => '{"t": "1", "n": 5}',
		p_history_ttl => '1 hour', p_history_size => 3, p_meta_ttl => '1 day', p_version => 5, p_version_epoch => 'v',
		p_idempotency_key => 'once', p_idempotency_ttl => '1 minute', p_use_delta => true,
		p_client_id => 'c', p_user_id => 'u', p_conn_info => '{"i": 1}', p_chan_info => '[]', p_num_shards => 8)`)
	if first.offset != 1 || len(first.epoch) != 8 || first.suppressed || first.reason != nil || first.id == 0 {
		t.Errorf("%+v", first)
	}
	e := got.next(t)
	p := e.Pub
	if string(p.Data) != `{"a": 2, "b": 1}` || p.Tags["t"] != "1" || p.Tags["n"] != "5" || p.Version != 5 || e.Epoch != first.epoch || !e.Delta ||
		p.Offset != 1 || time.Since(time.UnixMilli(p.Time)).Abs() > time.Minute ||
		p.Info.Client != "c" || p.Info.User != "u" || string(p.Info.ConnInfo) != `{"i": 1}` || string(p.Info.ChanInfo) != "[]" {
		t.Errorf("%+v, %+v", e, p)
	}
	again := d.publishes(`SELECT * FROM cf_stream_publish('ch', '1', p_idempotency_key => 'once')`)
	if !again.suppressed || *again.reason != "idempotency" || again.offset != 1 || again.epoch != first.epoch {
		t.Errorf("%+v", again)
	}
	old := d.publishes(`SELECT * FROM cf_stream_publish('ch', '1', p_version => 5)`)
	if !old.suppressed || *old.reason != "version" || old.offset != 1 {
		t.Errorf("%+v", old)
	}
	if e := d.fails(`SELECT * FROM cf_stream_publish_strict('ch', '1', p_version => 4)`); !strings.Contains(e.Message, "publish suppressed: version") {
		t.Error(e)
	}
	if e := d.fails(`SELECT * FROM cf_stream_publish('ch', '1', p_num_shards => 100)`); !strings.Contains(e.Message, "p_num_shards") {
		t.Error(e)
	}
	// Without times, the stream keeps those that it has.
	for i := range 3 {
		d.exec(fmt.Sprintf(`SELECT * FROM cf_stream_publish_strict('ch', '%d', p_use_delta => true)`, i))
	}
	events := got.want(t, "ch=0@2", "ch=1@3", "ch=2@4")
	if prev := events[2].Prev; prev == nil || prev.Offset != 3 || string(prev.Data) != "1" {
		t.Errorf("%+v", prev)
	}
	h, err := b.History(t.Context(), "ch", broker.HistoryFilter{Limit: -1})
	if err != nil || len(h.Publications) != 3 || h.Top != (channel.StreamPosition{Offset: 4, Epoch: first.epoch}) {
		t.Errorf("%+v, %v", h, err)
	}
	var offset int64
	var epoch string
	must(t, d.connect().QueryRow(t.Context(), "SELECT out_top_offset, out_epoch FROM cf_stream_top_position('ch')").Scan(&offset, &epoch))
	if offset != 4 || epoch != first.epoch {
		t.Errorf("%d, %s", offset, epoch)
	}
	must(t, d.connect().QueryRow(t.Context(), "SELECT * FROM cf_stream_top_position('unknown')").Scan(&offset, &epoch))
	if offset != 0 || epoch != "" {
		t.Errorf("%d, %s", offset, epoch)
	}
	d.exec("SELECT cf_stream_remove_history('ch')")
	if h, err = b.History(t.Context(), "ch", broker.HistoryFilter{Limit: -1}); err != nil || len(h.Publications) != 0 || h.Top.Offset != 4 {
		t.Errorf("%+v, %v", h, err)
	}
	d.exec(`SELECT cf_stream_publish_join('joins', 'c', 'u', '{}', NULL)`, `SELECT cf_stream_publish_leave('joins', p_client_id => 'c')`)
	if join, leave := got.next(t), got.next(t); join.kind != "join" || join.info.User != "u" || leave.kind != "leave" || leave.info.Client != "c" {
		t.Errorf("%v, %v", join, leave)
	}
	// The binary variant is there as well.
	d.exec(`SELECT cf_binary_stream_publish('ch', '\x00ff'::bytea)`)
}

// TestCommitOrder: transactions that take offsets early and commit late, or never, are delivered without a gap and in
// order.
func TestCommitOrder(t *testing.T) {
	d := newDatabase(t)
	got := newEvents()
	b := d.run(postgres.Config{NumShards: 2, PollInterval: 5 * time.Millisecond}, got)
	names := []string{"a", "b", "c"}
	must(t, b.Subscribe(t.Context(), names...))
	var all sync.WaitGroup
	var mu sync.Mutex
	committed := 0
	for w := range 8 {
		conn := d.connect()
		r := rand.New(rand.NewPCG(1, uint64(w)))
		all.Go(func() {
			for range 25 {
				tx, err := conn.Begin(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				n := 1 + r.IntN(3)
				ch := names[r.IntN(len(names))] // one channel, as the order of locks is up to applications
				for range n {
					if _, err = tx.Exec(context.Background(), "SELECT cf_stream_publish($1, '1')", ch); err != nil {
						t.Error(err)
						return
					}
				}
				if r.IntN(3) == 0 {
					err = tx.Rollback(context.Background())
				} else if err = tx.Commit(context.Background()); err == nil {
					mu.Lock()
					committed += n
					mu.Unlock()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Go(func() {
		for range 200 {
			if _, err := b.Publish(context.Background(), names[0], &channel.Publication{Data: []byte("2")}, keep); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			committed++
			mu.Unlock()
		}
	})
	all.Wait()
	last := map[string]uint64{}
	for range committed {
		e := got.next(t)
		if e.Pub.Offset != last[e.ch]+1 {
			t.Fatalf("%v behind %d", e, last[e.ch])
		}
		last[e.ch]++
	}
	for ch, offset := range last {
		if h, err := b.History(t.Context(), ch, broker.HistoryFilter{}); err != nil || h.Top.Offset != offset {
			t.Errorf("%s: %+v, %v, delivered up to %d", ch, h.Top, err, offset)
		}
	}
}

// TestMapFunctions calls the functions of maps.
func TestMapFunctions(t *testing.T) {
	d := newDatabase(t)
	got := newEvents()
	b := d.run(postgres.Config{PollInterval: 10 * time.Millisecond, MapExpiryInterval: time.Hour}, got)
	must(t, b.Subscribe(t.Context(), "map"))
	d.exec(
		`SELECT cf_map_publish('map', 'k', '1', p_tags => '{"t": "1"}', p_key_mode => 'if_new', p_key_version => 1)`,
		`SELECT cf_map_publish_strict('map', 'k', '2', p_expected_offset => 1, p_use_delta => true)`,
	)
	if e := got.want(t, "map=1@1", "map=2@2")[1]; e.Prev == nil || string(e.Prev.Data) != "1" || e.Pub.Key != "k" {
		t.Errorf("%+v", e)
	}
	var reason, data string
	var offset int64
	row := d.connect().QueryRow(t.Context(), `SELECT out_suppress_reason, out_current_data::text, out_current_offset FROM cf_map_publish('map', 'k', '3', p_expected_offset => 1)`)
	if err := row.Scan(&reason, &data, &offset); err != nil || reason != "position_mismatch" || data != "2" || offset != 2 {
		t.Errorf("%s, %s, %d, %v", reason, data, offset, err)
	}
	for sql, want := range map[string]string{
		`SELECT cf_map_publish_strict('map', 'k', '3', p_key_mode => 'if_new')`:                  "23505",
		`SELECT cf_map_publish_strict('map', 'x', '3', p_key_mode => 'if_exists')`:               "P0002",
		`SELECT cf_map_publish_strict('map', 'k', '3', p_expected_offset => 1)`:                  "40001",
		`SELECT cf_map_publish_strict('map', 'k', '3', p_key_version => 1)`:                      "40001",
		`SELECT cf_map_remove_strict('map', 'x')`:                                                "P0002",
		`SELECT cf_map_publish('map', 'k', '3', p_meta_ttl => '1 hour')`:                         "P0001",
		`SELECT cf_map_publish('map', 'k', '3', p_key_ttl => '2 hours', p_meta_ttl => '1 hour')`: "P0001",
		`SELECT cf_map_publish('map', '', '3')`:                                                  "P0001",
		`SELECT cf_map_publish('map', 'k', '3', p_key_mode => 'perhaps')`:                        "P0001",
	} {
		e := d.fails(sql)
		if e.Code != want {
			t.Errorf("%s: %s %s", sql, e.Code, e.Message)
		}
		if want == "40001" && strings.Contains(sql, "expected") && e.Detail != "2" {
			t.Errorf("detail %q", e.Detail)
		}
	}
	d.exec(`SELECT cf_map_remove('map', 'k')`, `SELECT cf_map_publish('map', 'gone', '4', p_key_ttl => '1 millisecond', p_meta_ttl => '1 hour')`, `SELECT pg_sleep(0.01)`)
	var key string
	must(t, d.connect().QueryRow(t.Context(), `SELECT out_key, out_offset FROM cf_map_expire_keys(p_batch_size => 10, p_channel => 'map')`).Scan(&key, &offset))
	if key != "gone" || offset != 5 {
		t.Errorf("%s, %d", key, offset)
	}
	events := got.want(t, "map=@3", "map=4@4", "map=@5")
	if !events[0].Pub.Removed || events[0].Pub.Tags["t"] != "" || !events[2].Pub.Removed || events[2].Pub.Key != "gone" {
		t.Errorf("%+v", events)
	}
}

// TestMapCounts: however entries come and go, by nodes, functions and time, a map that was counted knows how many it has.
func TestMapCounts(t *testing.T) {
	d := newDatabase(t)
	b := d.run(postgres.Config{MapExpiryInterval: time.Hour}, newEvents())
	entries := b.Describe().Maps
	conn := d.connect()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	call := func(sql string, args ...any) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql, args...)
		must(t, err)
	}
	full := 0
	for range 600 {
		key, ephemeral := fmt.Sprint("k", r.IntN(12)), r.IntN(2) == 0
		ch, o := "kept", channel.MapOptions{StreamSize: 5, StreamTTL: time.Minute}
		if ephemeral {
			ch, o = "ephemeral", channel.MapOptions{KeyTTL: time.Hour}
		}
		pub := &channel.Publication{Key: key, Data: []byte("1"), Removed: r.IntN(3) == 0}
		switch n := r.IntN(20); {
		case n == 0:
			must(t, entries.Clear(t.Context(), ch))
			continue
		case n < 3:
			call("UPDATE cf_map_state SET expires_at = now() WHERE key < $1", key)
			call("SELECT cf_map_expire_keys()")
			continue
		case n < 6 && !ephemeral:
			call("SELECT cf_map_publish('kept', $1, '1')", key)
			continue
		case n < 9 && !ephemeral:
			call("SELECT cf_map_remove('kept', $1)", key)
			continue
		case n < 16:
			o.MaxEntries = 1 + r.IntN(6)
		}
		result, err := entries.Change(t.Context(), ch, pub, o)
		must(t, err)
		if result.Suppressed == channel.SuppressMapFull {
			full++
		}
		if wrong := d.wrongCounts(conn); wrong > 0 {
			t.Fatalf("seed %d: %d maps have other numbers of entries than they know", seed, wrong)
		}
	}
	if counted := d.count("SELECT count(entries) FROM cf_map_meta"); full == 0 || counted == 0 {
		t.Errorf("seed %d: refused %d times, counted %d maps", seed, full, counted)
	}
}

func (d *database) wrongCounts(conn *pgx.Conn) (n int) {
	d.tb.Helper()
	must(d.tb, conn.QueryRow(d.tb.Context(), `SELECT count(*) FROM cf_map_meta m
		WHERE m.entries <> (SELECT count(*) FROM cf_map_state e WHERE e.channel = m.channel)`).Scan(&n))
	return n
}

// TestDocumentedSQL executes the SQL of docs/postgres.md.
func TestDocumentedSQL(t *testing.T) {
	d := newDatabase(t)
	got := newEvents()
	b := d.run(postgres.Config{PollInterval: 10 * time.Millisecond, NumShards: 8}, got)
	must(t, b.Subscribe(t.Context(), "chat:index", "a", "b", "c", "board:1"))
	page, err := os.ReadFile("../../docs/postgres.md")
	must(t, err)
	d.exec( // numbers that are written out
		`SELECT cf_stream_publish('big', '{"n": [0, 1e131071]}')`,
		`SELECT cf_stream_publish('big', '-1e-401', p_use_delta => true)`,
		`SELECT cf_stream_publish('big', '{"s": "1e131071", "n": [1.5e308, 0.0]}', p_use_delta => true, p_client_id => 'c', p_conn_info => '1')`,
		`SELECT cf_stream_publish('big', '4', p_client_id => 'c', p_conn_info => '[-1e400]')`,
		`SELECT cf_stream_publish('big', '5', p_client_id => 'c', p_conn_info => '6')`,
		`SELECT cf_map_publish('big', 'k', '1e131071')`,
		`SELECT cf_map_publish('big', 'l', '2')`,
	)
	conn := d.connect()
	blocks := strings.Split(string(page), "```sql")[1:]
	var found []string
	for _, part := range blocks {
		_, text, _ := strings.Cut(part, "\n")
		block, _, _ := strings.Cut(text, "```")
		results, err := conn.PgConn().Exec(t.Context(), block).ReadAll()
		if err != nil {
			t.Errorf("%s: %v", block, err)
		}
		for _, r := range results {
			for _, row := range r.Rows {
				if string(row[0]) == "cf_stream" || strings.HasPrefix(string(row[0]), "cf_map") {
					found = append(found, string(bytes.Join(row, []byte(" "))))
				}
			}
		}
	}
	slices.Sort(found)
	if want := []string{"cf_map_state big 1 131072", "cf_map_stream big 1 131072", "cf_stream big 1 131084", "cf_stream big 2 404", "cf_stream big 3 340", "cf_stream big 4 1"}; !slices.Equal(found, want) {
		t.Errorf("found %q", found)
	}
	h, err := b.History(t.Context(), "big", broker.HistoryFilter{Limit: -1})
	must(t, err)
	var left []string
	for _, p := range h.Publications {
		text := fmt.Sprintf("%d %.20s", p.Offset, p.Data)
		if p.Info != nil {
			text += fmt.Sprintf(" %s", p.Info.ConnInfo)
		}
		left = append(left, text)
	}
	if want := []string{`1 null`, `2 null`, `3 {"n": [1500000000000 1`, `4 4 `, `5 5 6`}; !slices.Equal(left, want) {
		t.Errorf("left %q", left)
	}
	s, err := b.Describe().Maps.State(t.Context(), "big", channel.StateFilter{Limit: -1})
	if err != nil || len(s.Entries) != 2 || string(s.Entries[0].Data) != "null" || string(s.Entries[1].Data) != "2" {
		t.Errorf("%+v, %v", s, err)
	}
	count := map[string]int{}
	for range 6 {
		count[got.next(t).ch]++
	}
	if len(blocks) != 5 || count["chat:index"] != 1 || count["a"] != 1 || count["c"] != 1 || count["board:1"] != 2 {
		t.Errorf("%d blocks, %v", len(blocks), count)
	}
}
