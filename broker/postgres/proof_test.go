package postgres_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestTakesNoPublications: PostgreSQL answers reads, and refuses publications with history. Health says so, and when it
// is over, also if the node publishes nothing any more.
func TestTakesNoPublications(t *testing.T) {
	t.Parallel()
	const (
		writable = "SET default_transaction_read_only = off"
		end      = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
	)
	alter := func(what string) string {
		return "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I " + what + "', current_database()); END $$"
	}
	for name, test := range map[string]struct {
		begin, end []string
		reason     string
		idle       bool // the application publishes nothing
	}{
		"full": {
			begin: []string{
				"CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END $$",
				"CREATE TRIGGER full_disk BEFORE INSERT ON cf_stream_meta EXECUTE FUNCTION full_disk()",
			},
			end: []string{"DROP TRIGGER full_disk ON cf_stream_meta"}, reason: "could not extend file",
		},
		"read-only": {
			begin: []string{alter("SET default_transaction_read_only = on"), end},
			end:   []string{writable, alter("RESET default_transaction_read_only"), end}, reason: "read-only",
		},
		"read-only, idle": {
			begin: []string{alter("SET default_transaction_read_only = on"), end},
			end:   []string{writable, alter("RESET default_transaction_read_only"), end}, reason: "read-only", idle: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			b := d.run(postgres.Config{PollInterval: 10 * time.Millisecond}, newEvents())
			publish := func() error {
				_, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("1")}, broker.PublishOptions{HistorySize: 1, HistoryTTL: time.Minute})
				return err
			}
			health := func() error { return b.Health()[0].Err }
			must(t, publish())
			wait.Until(t, "health", func() bool { return health() == nil })
			d.exec(test.begin...)
			if !test.idle {
				wait.Until(t, "a publication that is refused", func() bool {
					err := publish()
					return err != nil && strings.Contains(err.Error(), test.reason)
				})
			}
			wait.Until(t, "the reason", func() bool {
				err := health()
				return err != nil && strings.Contains(err.Error(), test.reason)
			})
			d.exec(test.end...)
			wait.Until(t, "health", func() bool { return health() == nil })
			wait.Success(t, "a publication", publish)
		})
	}
}

// blocker is a session that blocks transactions until it is told to end.
func (d *database) blocker(sql string) (pid int, end func()) {
	d.tb.Helper()
	conn := d.connect()
	for _, sql := range []string{"SET application_name = 'blocker'", "BEGIN", sql} {
		if _, err := conn.Exec(d.tb.Context(), sql); err != nil {
			d.tb.Fatalf("%s: %v", sql, err)
		}
	}
	return int(conn.PgConn().PID()), func() {
		_, err := conn.Exec(d.tb.Context(), "ROLLBACK")
		must(d.tb, err)
	}
}

// hangs does something that has no answer until it ends: health tells why, and when it is over.
func hangs(t *testing.T, b *postgres.Broker, do func() error, end func(), reasons ...string) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	health := func() string {
		if err := b.Health()[0].Err; err != nil {
			return err.Error()
		}
		return ""
	}
	wait.Until(t, "a fault", func() bool { return health() != "" })
	for _, reason := range append(reasons, "has had no answer since 20") {
		if text := health(); !strings.Contains(text, reason) {
			t.Errorf("%s, want %s", text, reason)
		}
	}
	select {
	case err := <-done:
		t.Errorf("it has ended before: %v", err)
	default:
	}
	end()
	must(t, wait.Receive(t, "the answer", done))
	wait.Until(t, "health", func() bool { return health() == "" })
}

// TestHangs: PostgreSQL answers reads only. Health names the reason while the first transaction waits, and is well again
// once writes succeed.
func TestHangs(t *testing.T) {
	t.Parallel()
	publish := func(b *postgres.Broker) error {
		_, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("1")}, keep)
		return err
	}
	for name, test := range map[string]struct {
		lock   string
		write  func(*postgres.Broker) error
		reason string
		log    string
	}{
		"a lock on streams": {
			"LOCK TABLE cf_stream_meta IN EXCLUSIVE MODE", publish, "publications with history fail: a transaction in shard 1 of cf_stream", "publications with history",
		},
		"a transaction of the application": {"SELECT cf_stream_publish('ch', '1')", publish, "in shard 1 of cf_stream", "publications with history"},
		"a lock on maps": {"LOCK TABLE cf_map_state IN EXCLUSIVE MODE", func(b *postgres.Broker) error {
			_, err := b.Describe().Maps.Change(t.Context(), "ch", &channel.Publication{Key: "k", Data: []byte("1")}, channel.MapOptions{KeyTTL: time.Minute})
			return err
		}, "changes of maps fail: a transaction in shard 1 of cf_map", "changes of maps"},
		"a lock on control messages": {"LOCK TABLE cf_controller_messages IN EXCLUSIVE MODE", func(b *postgres.Broker) error {
			return b.PublishControl(t.Context(), "", []byte("text"))
		}, "messages between nodes fail: a transaction in cf_controller", "messages between nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			var log lines
			b := d.run(postgres.Config{PollInterval: 10 * time.Millisecond, NumShards: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))}, newEvents())
			wait.Success(t, "a transaction", func() error { return test.write(b) })
			pid, end := d.blocker(test.lock)
			hangs(t, b, func() error { return test.write(b) }, end, test.reason, fmt.Sprint("because of process ", pid, " "), `"blocker", idle in transaction`)
			for _, line := range []string{"takes no " + test.log, "takes " + test.log + " again"} {
				wait.Until(t, line, func() bool { return strings.Contains(log.String(), line) }) // health changes before the line is written
				if strings.Count(log.String(), line) != 1 {
					t.Errorf("several lines with %s: %s", line, log.String())
				}
			}
		})
	}
}

// TestStandbyGone: commits wait for a standby that is not there.
func TestStandbyGone(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t, postgrestest.Options{})
	name, err := server.Database(t.Context())
	must(t, err)
	d := &database{t, server.DSN(name)}
	b := d.run(postgres.Config{PollInterval: 10 * time.Millisecond}, newEvents())
	publish := func() error {
		_, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("1")}, keep)
		return err
	}
	must(t, publish())
	standbys := func(names string) {
		d.exec("ALTER SYSTEM SET synchronous_standby_names = '"+names+"'", "SELECT pg_reload_conf()")
		wait.Until(t, "the setting", func() bool {
			var now string
			must(t, d.connect().QueryRow(t.Context(), "SHOW synchronous_standby_names").Scan(&now))
			return now == names
		})
	}
	standbys("nobody")
	hangs(t, b, publish, func() { standbys("") }, "publications with history fail", "waits for SyncRep (IPC)")
}

type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
