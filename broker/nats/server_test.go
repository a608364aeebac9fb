package nats

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

func startServer(t testing.TB, opts *server.Options) *server.Server {
	t.Helper()
	if opts == nil {
		opts = &server.Options{}
	}
	opts.Host, opts.NoSigs, opts.NoLog = "127.0.0.1", true, true
	if opts.Port == 0 {
		port, err := porttest.Free() // it stays free while the server is away
		must(t, err)
		opts.Port = port
	}
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(wait.Limit) {
		t.Fatal("server does not start")
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

func newBroker(t testing.TB, cfg Config) *Broker {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func run(t testing.TB, cfg Config, h broker.EventHandler) *Broker {
	t.Helper()
	b := newBroker(t, cfg)
	if err := b.Run(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

type event struct {
	kind, ch string
	pub      *channel.Publication
	delta    bool
	info     *channel.ClientInfo
	lost     func(string) bool
}

type events chan event

func newEvents() events { return make(events, 10_000) }

func (e events) HandlePublication(ch string, p broker.PublicationEvent) {
	wait.Offer(e, event{kind: "publication", ch: ch, pub: p.Pub, delta: p.Delta})
}

func (e events) HandleJoin(ch string, info *channel.ClientInfo) {
	wait.Offer(e, event{kind: "join", ch: ch, info: info})
}

func (e events) HandleLeave(ch string, info *channel.ClientInfo) {
	wait.Offer(e, event{kind: "leave", ch: ch, info: info})
}

func (e events) HandleLoss(match func(string) bool) { wait.Offer(e, event{kind: "loss", lost: match}) }

// next waits for an event of a kind; others are passed over.
func (e events) next(t testing.TB, kind string) event {
	t.Helper()
	timeout := time.After(wait.Limit)
	for {
		select {
		case got := <-e:
			if got.kind == kind {
				return got
			}
		case <-timeout:
			t.Fatalf("no %s in %v", kind, wait.Limit)
		}
	}
}
