package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestTakesNoPublications: PostgreSQL answers what the node reads, and refuses publications with history. Health says so, and that
// the fault is over, also if the node publishes nothing any more.
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
