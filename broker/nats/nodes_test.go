package nats_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker/nats"
	"github.com/gyrohq/gyro/internal/wstest"
)

// startNode starts a node whose clients may do everything.
func startNode(t *testing.T, cfg nats.Config) *gyro.Node {
	t.Helper()
	b, err := nats.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	node, err := gyro.New(gyro.Config{Broker: b, Handlers: gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "u"}}, nil
		},
		Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{
				EmitJoinLeave: true, PushJoinLeave: true, Recoverable: strings.HasPrefix(e.Channel, "recoverable"),
			}}, nil
		},
		Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
			return gyro.PublishReply{}, nil
		},
		History: func(context.Context, *gyro.Client, gyro.HistoryEvent) error { return nil },
	}})
	if err == nil {
		err = node.Run()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return node
}

func natsServer(t *testing.T) string {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("server does not start")
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s.ClientURL()
}

// What clients of two nodes see of each other.
func TestNodes(t *testing.T) {
	url := natsServer(t)
	one := wstest.Pipe(t, startNode(t, nats.Config{URL: url, AllowWildcards: true}))
	two := wstest.Pipe(t, startNode(t, nats.Config{URL: url}))
	one.Connect("")
	two.Connect("")
	one.Subscribe("news.sport", "")
	one.Subscribe("news.*", "")
	two.Subscribe("news.sport", "")
	if p := one.Push(); p.Channel != "news.sport" || p.Join == nil { // its own
		t.Errorf("%+v", p)
	}
	if p := one.Push(); p.Channel != "news.sport" || p.Join == nil {
		t.Errorf("%+v", p)
	}
	two.Do(`"publish":{"channel":"news.sport","data":{"goals":3}}`)
	for range 2 {
		p := one.Push()
		if p.Pub == nil || string(p.Pub.Data) != `{"goals":3}` || p.Pub.Channel != "news.sport" || p.Pub.Info.User != "u" {
			t.Errorf("%+v", p)
		}
	}

	for command, want := range map[string]uint32{
		`"subscribe":{"channel":"recoverable"}`: 108,
		`"subscribe":{"channel":"news.*"}`:      107,
		`"subscribe":{"channel":"no name"}`:     107,
		`"publish":{"channel":"*","data":{}}`:   107,
		`"history":{"channel":"news.sport"}`:    108,
	} {
		if r := two.Call(command); r.Error == nil || r.Error.Code != want {
			t.Errorf("%s: %+v, want error %d", command, r.Error, want)
		}
	}
	two.Do(`"publish":{"channel":"news.sport","data":{}}`) // is still there
}
