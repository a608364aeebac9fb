package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/queues/queuetest"
)

func (d *database) source(edit func(*config.Consumer)) *Source {
	d.tb.Helper()
	c := config.Consumer{Name: "outbox", PostgreSQL: config.PostgreSQLConsumer{
		DSN: d.dsn + "?connect_timeout=60", OutboxTableName: "gyro_outbox", NumPartitions: 2, PartitionSelectLimit: 100, PartitionPollInterval: 20 * time.Millisecond,
	}}
	if edit != nil {
		edit(&c)
	}
	s, err := New(&c)
	if err != nil {
		d.tb.Fatal(err)
	}
	return s
}

func ordered(c *queues.Config) { c.Ordered = true }

// TestConsume: rows are executed in the order of their partition and deleted; those with another
// partition stay.
func TestConsume(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec("DELETE FROM gyro_outbox")
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	var want []string
	for i := range 250 {
		d.add(i%2, fmt.Sprint("ch", i%2), fmt.Sprint(i))
		want = append(want, fmt.Sprintf(`ch%d "%d"`, i%2, i))
	}
	d.add(2, "a", "never")
	stop := queuetest.Start(t, d.source(nil), queuetest.Config(node, func(c *queues.Config) { c.Ordered, c.Meter = true, meter }))
	got := node.Await(t, len(want))
	for _, ch := range []string{"ch0", "ch1"} {
		other := func(s string) bool { return !strings.HasPrefix(s, ch) }
		if g, w := slices.DeleteFunc(slices.Clone(got), other), slices.DeleteFunc(slices.Clone(want), other); !slices.Equal(g, w) {
			t.Errorf("got %q", g)
		}
	}
	wait.Until(t, "deleted rows", func() bool { return d.rows() == 1 })
	d.add(0, "a", "later")
	node.Await(t, len(want)+1)
	wait.Until(t, "lag", func() bool { return meter.LagOf("0") >= 0 })
	stop()
	if processed, failed, _ := meter.Counts(); processed != 251 || failed != 0 || d.rows() != 1 {
		t.Errorf("processed %d, failed %d, %d rows", processed, failed, d.rows())
	}
}

// TestDocumentedSQL: the statements of the documentation make a table, and add a publication to it.
func TestDocumentedSQL(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	node := queuetest.NewNode()
	queuetest.Start(t, d.source(func(c *config.Consumer) {
		c.PostgreSQL.PartitionPollInterval, c.PostgreSQL.NotificationChannel = time.Hour, "gyro_outbox_change"
	}), queuetest.Config(node, ordered))
	if got := node.Await(t, 1); got[0] != `chat:index {"text": "Hello"}` {
		t.Errorf("got %q", got)
	}
	if n := d.count("SELECT count(*) FROM orders"); n != 1 {
		t.Errorf("%d orders", n)
	}
}

// TestTypes: a payload may be text or bytes, and without a method an envelope.
func TestTypes(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for i, typ := range []string{"jsonb", "json", "text", "bytea"} {
		table := fmt.Sprint("outbox_", typ)
		d.exec(fmt.Sprintf("CREATE TABLE %s (id bigserial PRIMARY KEY, method text NOT NULL, payload %s NOT NULL, partition integer NOT NULL DEFAULT 0)", table, typ))
		d.exec(fmt.Sprintf(`INSERT INTO %s (method, payload) VALUES ('', '{"method":"publish","payload":{"channel":"a","data":%d}}')`, table, i))
		node := queuetest.NewNode()
		stop := queuetest.Start(t, d.source(func(c *config.Consumer) { c.PostgreSQL.OutboxTableName = table }), queuetest.Config(node, ordered))
		if got := node.Await(t, 1); got[0] != fmt.Sprint("a ", i) {
			t.Errorf("%s: got %q", typ, got)
		}
		stop()
	}
}

// TestNotification: a notification wakes its partition up; others are ignored.
func TestNotification(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec("DELETE FROM gyro_outbox")
	node := queuetest.NewNode()
	queuetest.Start(t, d.source(func(c *config.Consumer) {
		c.PostgreSQL.PartitionPollInterval, c.PostgreSQL.NotificationChannel = time.Hour, "Odd \"name"
	}), queuetest.Config(node, ordered))
	wait.Until(t, "a listener", func() bool {
		return d.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'") == 1
	})
	d.add(1, "a", "1")
	for _, payload := range []string{"x", "2", "-1", "", "1"} {
		d.exec("SELECT pg_notify('Odd \"name', $1)", payload)
	}
	node.Await(t, 1)
}

// TestRetry: a row that fails keeps those behind it waiting, in its partition alone.
func TestRetry(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec("DELETE FROM gyro_outbox")
	node := queuetest.NewNode()
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	d.add(0, "bad", "1")
	d.add(0, "bad", "2")
	d.add(0, "good", "3")
	queuetest.Start(t, d.source(func(c *config.Consumer) { c.PostgreSQL.PartitionSelectLimit = 1 }), queuetest.Config(node, ordered))
	d.add(1, "good", "4")
	node.Await(t, 1)
	node.SetFails(nil)
	if got := node.Await(t, 4); !slices.Equal(got, []string{`good "4"`, `bad "1"`, `bad "2"`, `good "3"`}) {
		t.Errorf("got %q", got)
	}
	wait.Until(t, "deleted rows", func() bool { return d.rows() == 0 })
}

// TestPoison: a row that fails for too long goes to the dead letters with the transaction that
// deletes it, and the rows behind it are executed.
func TestPoison(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec("DELETE FROM gyro_outbox")
	node := queuetest.NewNode()
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	s := d.source(func(c *config.Consumer) {
		c.DeadLetter, c.PostgreSQL.DSN = "gyro_outbox_failed", c.PostgreSQL.DSN+"&pool_max_conns=1"
	})
	d.add(0, "bad", "1")
	d.add(0, "unknown:1", "2")
	d.add(0, "good", "3")
	queuetest.Start(t, s, queuetest.Config(node, func(c *queues.Config) {
		c.Ordered, c.RetryTime, c.DeadLetter = true, time.Millisecond, s.KeepDeadLetter
	}))
	node.Await(t, 1)
	wait.Until(t, "deleted rows", func() bool { return d.rows() == 0 })
	if n := d.count(`SELECT count(*) FROM gyro_outbox_failed WHERE method = 'publish' AND payload->>'channel' = 'bad' AND reason LIKE '%100%'
		OR payload->>'channel' = 'unknown:1' AND reason LIKE '%102%'`); n != 2 {
		t.Errorf("%d dead letters", n)
	}
}

// TestNodes: several nodes share the partitions; each row is executed once, in order.
func TestNodes(t *testing.T) {
	t.Parallel()
	for _, try := range []bool{false, true} {
		d := newDatabase(t)
		d.exec("DELETE FROM gyro_outbox")
		node := queuetest.NewNode()
		for range 3 {
			queuetest.Start(t, d.source(func(c *config.Consumer) { c.PostgreSQL.UseTryLock, c.PostgreSQL.PartitionSelectLimit = try, 7 }), queuetest.Config(node, ordered))
		}
		d.exec(`INSERT INTO gyro_outbox (method, payload, partition)
			SELECT 'publish', jsonb_build_object('channel', 'ch' || i % 2, 'data', i), i % 2 FROM generate_series(1, 500) AS i ORDER BY i`)
		for left := 501; left > 0; {
			wait.Until(t, "deleted rows", func() bool {
				n := d.rows()
				fewer := n < left
				left = n
				return fewer
			})
		}
		last := map[string]int{}
		got := node.Await(t, 500)
		for _, g := range got {
			var ch string
			var i int
			fmt.Sscan(g, &ch, &i)
			if last[ch] >= i {
				t.Fatalf("try %v: %s after %d", try, g, last[ch])
			}
			last[ch] = i
		}
		if len(got) != 500 {
			t.Errorf("try %v: %d executed", try, len(got))
		}
	}
}

// TestStopWhileBusy: rows are executed once while sources come and go.
func TestStopWhileBusy(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec("DELETE FROM gyro_outbox")
	queuetest.Handover(t, 1, func() queues.Source {
		return d.source(func(c *config.Consumer) { c.PostgreSQL.PartitionPollInterval = time.Millisecond })
	}, ordered,
		func(ch, data string) { d.add(0, ch, data) })
	if n := d.rows(); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// TestLockLost: if the connection that holds the lock ends while rows are executed, they are executed
// again.
func TestLockLost(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec("DELETE FROM gyro_outbox")
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	killed := false
	node.Fails = func(ch string, _ []byte) bool {
		if !killed {
			killed = true
			d.exec(`SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database b ON b.oid = l.database
				WHERE locktype = 'advisory' AND datname = current_database() AND granted`)
		}
		return false
	}
	d.add(0, "a", "1")
	queuetest.Start(t, d.source(func(c *config.Consumer) { c.PostgreSQL.NumPartitions = 1 }), queuetest.Config(node, func(c *queues.Config) { c.Ordered, c.Meter = true, meter }))
	if got := node.Await(t, 2); !slices.Equal(got, []string{`a "1"`, `a "1"`}) {
		t.Errorf("got %q", got)
	}
	wait.Until(t, "deleted rows", func() bool { return d.rows() == 0 })
	if processed, failed, _ := meter.Counts(); processed < 2 || failed == 0 {
		t.Errorf("processed %d, failed %d", processed, failed)
	}
}

// TestTableMissing: without its table a source tries again, and goes on when the table is there.
func TestTableMissing(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec("DELETE FROM gyro_outbox")
	d.exec("ALTER TABLE gyro_outbox RENAME TO elsewhere")
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	queuetest.Start(t, d.source(nil), queuetest.Config(node, func(c *queues.Config) { c.Ordered, c.Meter = true, meter }))
	wait.Until(t, "error", func() bool { _, failed, _ := meter.Counts(); return failed > 0 })
	d.exec("ALTER TABLE elsewhere RENAME TO gyro_outbox")
	d.add(0, "a", "1")
	node.Await(t, 1)
}

// TestOutage: a source goes on after all of its connections were ended.
func TestOutage(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec("DELETE FROM gyro_outbox")
	node := queuetest.NewNode()
	queuetest.Start(t, d.source(func(c *config.Consumer) { c.PostgreSQL.NotificationChannel = "change" }), queuetest.Config(node, ordered))
	for i := range 3 {
		d.add(0, "a", fmt.Sprint(i))
		node.AwaitFor(t, func(got []string) bool { return slices.Contains(got, fmt.Sprintf(`a "%d"`, i)) })
		d.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	}
}

// TestStart: what is wrong is told at the start, and the password is not.
func TestStart(t *testing.T) {
	t.Parallel()
	s, err := New(&config.Consumer{PostgreSQL: config.PostgreSQLConsumer{DSN: "postgres://u:hush-hush@127.0.0.1:1/x", OutboxTableName: "t", NumPartitions: 1}})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Connect(t.Context())
	s.Close()
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v", err)
	}
	for want, edit := range map[string]func(*config.Consumer){
		"dsn": func(c *config.Consumer) { c.PostgreSQL.DSN = "postgres://u:hush@h:port/x" },
		"partition_notification_dsn": func(c *config.Consumer) {
			c.PostgreSQL.NotificationChannel, c.PostgreSQL.NotificationDSN = "c", "postgres://u:hush@h:port/x"
		},
	} {
		c := config.Consumer{PostgreSQL: config.PostgreSQLConsumer{DSN: "postgres://u@h/x", NumPartitions: 1}}
		edit(&c)
		if _, err := New(&c); err == nil || !strings.HasPrefix(err.Error(), want+":") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// BenchmarkConsume consumes a table with 4 partitions and 1,000 channels; one operation is one
// publication.
func BenchmarkConsume(b *testing.B) {
	d := newDatabase(b)
	d.exec("DELETE FROM gyro_outbox")
	d.exec(`INSERT INTO gyro_outbox (method, payload, partition)
		SELECT 'publish', jsonb_build_object('channel', 'ch' || i % 1000, 'data', '{"text":"hello, world"}'::jsonb), i % 4 FROM generate_series(1, $1) AS i`, b.N)
	d.exec("ANALYZE gyro_outbox")
	node := queuetest.NewNode()
	b.ResetTimer()
	stop := queuetest.Start(b, d.source(func(c *config.Consumer) { c.PostgreSQL.NumPartitions, c.PostgreSQL.PartitionSelectLimit = 4, 1000 }), queuetest.Config(node, ordered))
	node.Await(b, b.N)
	b.StopTimer()
	stop()
}
