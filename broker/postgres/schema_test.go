package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

func (d *database) count(sql string, args ...any) (n int) {
	d.tb.Helper()
	if err := d.connect().QueryRow(d.tb.Context(), sql, args...).Scan(&n); err != nil {
		d.tb.Fatalf("%s: %v", sql, err)
	}
	return n
}

// TestSchema: the first node makes the tables, and other programs' tables are left alone.
func TestSchema(t *testing.T) {
	d := newDatabase(t)
	cfg := postgres.Config{TablePrefix: "my_", NumShards: 4}
	if err := d.refuse(postgres.Config{SkipSchemaInit: true}); err == nil || !strings.Contains(err.Error(), "SkipSchemaInit") {
		t.Errorf("without tables: %v", err)
	}
	nodes := make(chan error)
	for range 3 {
		go func() {
			cfg := cfg
			cfg.DSN, cfg.Logger = d.dsn, quiet
			b, err := postgres.New(cfg)
			if err == nil {
				err = b.Run(newEvents())
				_ = b.Close(context.Background())
			}
			nodes <- err
		}()
	}
	for range 3 {
		must(t, <-nodes)
	}
	for _, table := range []string{"my_stream", "my_binary_stream", "my_map_stream", "my_binary_map_stream", "my_controller_messages"} {
		if n := d.count("SELECT count(*) FROM pg_inherits WHERE inhparent = $1::regclass", table); n != 4 {
			t.Errorf("%s has %d partitions, want today, 2 days and the default", table, n)
		}
	}
	if n := d.count("SELECT count(*) FROM my_stream_shard_lock"); n != 4 {
		t.Errorf("%d shards", n)
	}
	cfg.SkipSchemaInit = true
	d.run(cfg, newEvents())
	cfg.NumShards = 5
	if err := d.refuse(cfg); err == nil || !strings.Contains(err.Error(), "4 shards") {
		t.Errorf("other shards: %v", err)
	}
	cfg.SkipSchemaInit = false
	cfg.NumShards = 2
	d.run(cfg, newEvents())
	if n := d.count("SELECT count(*) FROM my_stream_shard_lock"); n != 2 {
		t.Errorf("%d shards", n)
	}

	d.exec("UPDATE my_map_schema_version SET schema_version = 99")
	if err := d.refuse(cfg); err == nil || !strings.Contains(err.Error(), "my_map") || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("newer: %v", err)
	}
	d.exec("CREATE TABLE legacy_stream (id bigserial PRIMARY KEY)")
	if err := d.refuse(postgres.Config{TablePrefix: "legacy"}); err == nil || !strings.Contains(err.Error(), "legacy_stream is not partitioned") {
		t.Errorf("legacy: %v", err)
	}
}

// TestUpgrade: tables of the first version get the bound of entries, unless SkipSchemaInit forbids it. Old entries
// count.
func TestUpgrade(t *testing.T) {
	d := newDatabase(t)
	must(t, d.run(postgres.Config{}, newEvents()).Close(t.Context()))
	d.exec(
		"SELECT cf_map_publish('map', 'a', '1')",
		"DO $$ BEGIN EXECUTE 'DROP FUNCTION ' || (SELECT oid::regprocedure FROM pg_proc WHERE proname = 'cf_map_change_each' AND pronargs = 27); END $$",
		"ALTER TABLE cf_map_meta DROP COLUMN entries",
		"UPDATE cf_map_schema_version SET schema_version = 1",
	)
	if err := d.refuse(postgres.Config{SkipSchemaInit: true}); err == nil || !strings.Contains(err.Error(), "version 1 instead of 2") {
		t.Errorf("skipped: %v", err)
	}
	entries := d.run(postgres.Config{}, newEvents()).Describe().Maps
	set := func(key string) channel.MapResult {
		t.Helper()
		o := channel.MapOptions{StreamSize: 10, StreamTTL: time.Minute, MaxEntries: 2}
		r, err := entries.Change(t.Context(), "map", &channel.Publication{Key: key, Data: []byte("1")}, o)
		must(t, err)
		return r
	}
	if first, second := set("b"), set("c"); first.Suppressed != "" || second.Suppressed != channel.SuppressMapFull {
		t.Errorf("%+v, %+v", first, second)
	}
	// A node of the first version goes on.
	first := "SELECT r_offset FROM cf_map_change_each(8, ARRAY['map'], ARRAY['d'], ARRAY[false], ARRAY[0], ARRAY[1000], ARRAY[10], ARRAY[0], ARRAY['']" +
		strings.Repeat(", NULL", 2) + ", ARRAY['']" + strings.Repeat(", NULL", 2) + ", ARRAY[false], ARRAY[false], ARRAY['4']" + strings.Repeat(", NULL", 9) + ")"
	if offset := d.count(first); offset != 3 {
		t.Errorf("offset %d", offset)
	}
	if n := d.count("SELECT entries FROM cf_map_meta"); n != 3 {
		t.Errorf("%d entries", n)
	}
	if n := d.count("SELECT schema_version FROM cf_map_schema_version"); n != 2 {
		t.Errorf("version %d", n)
	}
}

// TestPartitions: rows without a partition go to the default one, and from there to theirs; old partitions are dropped,
// and expired rows deleted.
func TestPartitions(t *testing.T) {
	d := newDatabase(t)
	must(t, d.run(postgres.Config{}, newEvents()).Close(t.Context()))
	d.exec(
		// No node was there for ten days.
		"DO $$ DECLARE p text; BEGIN FOR p IN SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'cf_stream'::regclass AND inhrelid::regclass::text <> 'cf_stream_default' LOOP EXECUTE 'DROP TABLE ' || p; END LOOP; END $$",
		"SELECT cf_stream_publish('today', '1')",
		"INSERT INTO cf_stream (channel, channel_offset, data, created_at) SELECT 'old', i, '1', now() - interval '10 days' FROM generate_series(1, 5) i",
		"CREATE TABLE cf_stream_2001_02_03 PARTITION OF cf_stream FOR VALUES FROM ('2001-02-03 00:00:00+00') TO ('2001-02-04 00:00:00+00')",
		"INSERT INTO cf_stream (channel, channel_offset, data, created_at) VALUES ('old', 1, '1', '2001-02-03 12:00:00+00')",
		"INSERT INTO cf_stream_meta (channel, expires_at) SELECT 'meta' || i, now() FROM generate_series(1, 2500) i",
		"INSERT INTO cf_stream_idempotency VALUES ('a', 'b', 1, '', 1, now())",
		"INSERT INTO cf_map_meta (channel, expires_at) VALUES ('empty', now()), ('entries', now())",
		"INSERT INTO cf_map_state (channel, key, key_offset) VALUES ('entries', 'k', 1)",
	)
	got := newEvents()
	b := d.run(postgres.Config{CleanupInterval: 20 * time.Millisecond}, got)
	for what, sql := range map[string]string{
		"the old partition":    "SELECT count(*) FROM pg_class WHERE relname = 'cf_stream_2001_02_03'",
		"the old rows":         "SELECT count(*) FROM cf_stream WHERE channel = 'old'",
		"the default rows":     "SELECT count(*) FROM cf_stream_default",
		"the expired metas":    "SELECT count(*) FROM cf_stream_meta WHERE channel LIKE 'meta%'",
		"the expired keys":     "SELECT count(*) FROM cf_stream_idempotency",
		"the maps without end": "SELECT count(*) - 1 FROM cf_map_meta",
	} {
		wait.Until(t, what+" to be gone", func() bool { return d.count(sql) == 0 })
	}
	h, err := b.History(t.Context(), "today", broker.HistoryFilter{Limit: -1})
	if err != nil || len(h.Publications) != 1 {
		t.Errorf("%+v, %v", h, err)
	}
	must(t, b.Subscribe(t.Context(), "today"))
	d.exec("SELECT cf_stream_publish('today', '2')")
	got.want(t, "today=2@2")
	wait.Success(t, "metrics of the upkeep", func() error {
		figures := make(map[string]float64)
		for _, m := range b.Describe().Metrics() {
			figures[m.Name+m.Labels["pass"]] += m.Value
		}
		// Three days of two outboxes; one of the metas was for a map.
		if figures["partitions"] != 6 || figures["cleanup_removed_totalmeta"] != 2501 || figures["cleanup_removed_totalidempotency"] != 1 ||
			figures["outbox_cursor_lag_seconds"] <= 0 || figures["outbox_cursor_lag_seconds"] > 60 {
			return fmt.Errorf("%v", figures)
		}
		return nil
	})
}

// TestOtherShards: a node notices that others were started with another number of shards.
func TestOtherShards(t *testing.T) {
	d := newDatabase(t)
	b := d.run(postgres.Config{NumShards: 2, CleanupInterval: 10 * time.Millisecond}, newEvents())
	d.run(postgres.Config{NumShards: 3}, newEvents())
	wait.Until(t, "the node is ill", func() bool {
		err := b.Health()[0].Err
		return err != nil && strings.Contains(err.Error(), "has 3 shards")
	})
}

// TestJSON: payloads are JSONB unless BinaryData is set, and a payload that is not JSON is refused alone.
func TestJSON(t *testing.T) {
	d := newDatabase(t)
	got := newEvents()
	b := d.run(postgres.Config{}, got)
	must(t, b.Subscribe(t.Context(), "ch"))
	data := []string{`{"b":1,"a":[true]}`, `no json`, `1`, `"\u0000"`, `1e200000`, ``, `"é"`}
	batch := make([]broker.BatchItem, len(data))
	for i, text := range data {
		batch[i] = broker.BatchItem{Channel: "ch", Pub: &channel.Publication{Data: []byte(text)}, Options: keep}
	}
	b.PublishBatch(t.Context(), batch)
	for i, item := range batch {
		if bad := i == 1 || i == 3 || i == 4 || i == 5; bad != errors.Is(item.Err, protocol.ErrorBadRequest) || !bad && item.Err != nil {
			t.Errorf("%s: %v", data[i], item.Err)
		}
	}
	got.want(t, `ch={"a": [true], "b": 1}@1`, `ch=1@2`, `ch="é"@3`)
	info := &channel.ClientInfo{Client: "c", ConnInfo: []byte(`{"x":1}`)}
	_, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte(`{}`), Info: info, Tags: map[string]string{"t": "v"}}, broker.PublishOptions{})
	must(t, err)
	if p := got.want(t, "ch={}@0")[0].Pub; string(p.Info.ConnInfo) != `{"x": 1}` || p.Tags["t"] != "v" {
		t.Errorf("%+v", p)
	}
	if err := b.PublishJoin(t.Context(), "ch", &channel.ClientInfo{ConnInfo: []byte("x")}); !errors.Is(err, protocol.ErrorBadRequest) {
		t.Errorf("a join that is no JSON: %v", err)
	}
	entries := b.Describe().Maps
	o := channel.MapOptions{StreamSize: 10, StreamTTL: time.Minute}
	for _, pub := range []*channel.Publication{{Key: "k", Data: []byte(`{"x":1}`)}, {Key: "l", Data: []byte(`1`)}, {Key: "l", Removed: true}} {
		_, err := entries.Change(t.Context(), "map", pub, o)
		must(t, err)
	}
	if s, err := entries.State(t.Context(), "map", channel.StateFilter{Limit: -1}); err != nil || len(s.Entries) != 1 || string(s.Entries[0].Data) != `{"x": 1}` {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"\x00", "\xff", strings.Repeat("x", 1001)} {
		_, err := b.Publish(t.Context(), bad, &channel.Publication{Data: []byte("1")}, keep)
		_, errState := entries.State(t.Context(), bad, channel.StateFilter{})
		_, errHistory := b.History(t.Context(), bad, broker.HistoryFilter{})
		_, errChange := entries.Change(t.Context(), "map", &channel.Publication{Key: bad, Data: []byte("1")}, o)
		_, errTags := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("1"), Tags: map[string]string{"t": "\x00" + bad}}, keep)
		for what, err := range map[string]error{
			"Publish": err, "Subscribe": b.Subscribe(t.Context(), bad), "State": errState, "History": errHistory, "Change": errChange, "tags": errTags,
			"Positions": b.Positions(t.Context(), []string{bad}, 0)[0].Err,
		} {
			if !errors.Is(err, protocol.ErrorBadRequest) {
				t.Errorf("%s %.10q: %v", what, bad, err)
			}
		}
	}
}

// TestManySubscriptions: channels are delivered however many a node has subscribed to, and while it subscribes to others.
func TestManySubscriptions(t *testing.T) {
	d := newDatabase(t)
	got := newEvents()
	b := d.run(postgres.Config{NumShards: 1, PollInterval: time.Millisecond}, got)
	other := d.run(postgres.Config{NumShards: 1}, newEvents())
	for i := range 160 { // more than the node names to the server
		ch := fmt.Sprint("ch", i)
		must(t, b.Subscribe(t.Context(), ch))
		for _, name := range []string{"nobody", ch} {
			_, err := other.Publish(t.Context(), name, &channel.Publication{Data: []byte("1")}, keep)
			must(t, err)
		}
		got.want(t, ch+"=1@1")
	}
}

// TestWentBack: it is told that data went back, and delivery goes on, although ids come again.
func TestWentBack(t *testing.T) {
	d := newDatabase(t)
	got := newEvents()
	b := d.run(postgres.Config{NumShards: 1, PollInterval: time.Millisecond}, got)
	must(t, b.Subscribe(t.Context(), "ch"))
	for range 3 {
		_, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("1")}, keep)
		must(t, err)
	}
	got.want(t, "ch=1@1", "ch=1@2", "ch=1@3")
	// A standby that had got the first publication becomes the primary.
	name := d.dsn[strings.LastIndex(d.dsn, "/")+1:]
	d.exec("DELETE FROM cf_stream WHERE channel_offset > 1", "UPDATE cf_stream_meta SET top_offset = 1", "SELECT setval('cf_stream_id_seq', 1)",
		"SELECT cf_stream_publish('ch', '2')")
	must(t, shared.Server(t).Cut(t.Context(), name))
	wait.Success(t, "publish", func() error {
		_, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("3")}, keep)
		return err
	})
	for got.next(t).kind != "loss" {
	}
	_, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("4")}, keep)
	must(t, err)
	for e := got.next(t); e.Pub == nil || string(e.Pub.Data) != "4"; e = got.next(t) {
	}
}
