package postgres_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// shared has its commits on the disk when they are answered, as an installed PostgreSQL. It keeps its log for standbys that are away.
var shared = postgrestest.Shared{Options: postgrestest.Options{Settings: []string{"max_connections=300", "wal_keep_size=1GB"}}}

// TestMain lets the parallel tests, which wait for the server, be many.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	shared.Stop()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

type database struct {
	tb  testing.TB
	dsn string
}

func newDatabase(tb testing.TB) *database {
	tb.Helper()
	return &database{tb, shared.Database(tb)}
}

func (d *database) connect() *pgx.Conn {
	d.tb.Helper()
	conn, err := pgx.Connect(d.tb.Context(), d.dsn)
	must(d.tb, err)
	d.tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (d *database) exec(statements ...string) {
	d.tb.Helper()
	conn := d.connect()
	for _, sql := range statements {
		if _, err := conn.Exec(d.tb.Context(), sql); err != nil {
			d.tb.Fatalf("%s: %v", sql, err)
		}
	}
}

func (d *database) run(cfg postgres.Config, h broker.EventHandler) *postgres.Broker {
	d.tb.Helper()
	cfg.DSN, cfg.Logger, cfg.Timeout = d.dsn, cmp.Or(cfg.Logger, quiet), wait.Limit // a busy machine is no fault
	b, err := postgres.New(cfg)
	must(d.tb, err)
	must(d.tb, b.Run(h))
	d.tb.Cleanup(func() { must(d.tb, b.Close(context.Background())) })
	return b
}

func (d *database) refuse(cfg postgres.Config) error {
	d.tb.Helper()
	cfg.DSN, cfg.Logger = d.dsn, quiet
	b, err := postgres.New(cfg)
	must(d.tb, err)
	err = b.Run(newEvents())
	must(d.tb, b.Close(context.Background()))
	return err
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

type event struct {
	kind, ch string
	broker.PublicationEvent
	info *channel.ClientInfo
}

func (e event) String() string {
	if e.Pub == nil {
		return e.kind
	}
	return fmt.Sprintf("%s=%s@%d", e.ch, e.Pub.Data, e.Pub.Offset)
}

type events chan event

func newEvents() events { return make(events, 100_000) }

func (e events) HandlePublication(ch string, p broker.PublicationEvent) {
	wait.Offer(e, event{kind: "publication", ch: ch, PublicationEvent: p})
}

func (e events) HandleJoin(ch string, info *channel.ClientInfo) {
	wait.Offer(e, event{kind: "join", ch: ch, info: info})
}

func (e events) HandleLeave(ch string, info *channel.ClientInfo) {
	wait.Offer(e, event{kind: "leave", ch: ch, info: info})
}

func (e events) HandleLoss(func(string) bool) { wait.Offer(e, event{kind: "loss"}) }

func (e events) next(tb testing.TB) event {
	tb.Helper()
	return wait.Receive(tb, "an event", e)
}

func (e events) want(tb testing.TB, texts ...string) (list []event) {
	tb.Helper()
	for _, text := range texts {
		got := e.next(tb)
		if got.String() != text {
			tb.Fatalf("got %s, want %s", got, text)
		}
		list = append(list, got)
	}
	return list
}

var keep = broker.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute}
