package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

// TestNodes: nodes are a cluster, and their clients get and recover what nodes and applications publish.
func TestNodes(t *testing.T) {
	d := newDatabase(t)
	nodes := make([]*gyro.Node, 2)
	for i := range nodes {
		engine, err := postgres.New(postgres.Config{DSN: d.dsn, UseNotify: true, Logger: quiet})
		must(t, err)
		nodes[i], err = gyro.New(gyro.Config{
			Engine: engine, Logger: quiet, Name: fmt.Sprint("node", i),
			Channel: func(string) gyro.ChannelOptions {
				return gyro.ChannelOptions{HistorySize: 10, HistoryTTL: time.Minute}
			},
			Handlers: gyro.Handlers{
				Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
					return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "u"}}, nil
				},
				Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
					return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Recoverable: true}}, nil
				},
			},
		})
		must(t, err)
		must(t, nodes[i].Run())
		t.Cleanup(func() { must(t, nodes[i].Shutdown(context.Background())) })
	}
	wait.Until(t, "the nodes to know each other", func() bool {
		infos, err := nodes[0].Cluster().Nodes(t.Context())
		return err == nil && len(infos) == 2
	})
	c := gyrotest.Open(t, nodes[0], nil)
	c.Connect(nil)
	sub := c.Subscribe("news", nil)
	if !sub.Recoverable || sub.Epoch == "" {
		t.Errorf("%+v", sub)
	}
	_, err := nodes[1].Publish(t.Context(), "news", []byte("1"), nil)
	must(t, err)
	d.exec("SELECT cf_stream_publish('news', '2')")
	for i := uint64(1); i <= 2; i++ {
		if p := c.Publication("news"); p.Offset != i || string(p.Data) != fmt.Sprint(i) {
			t.Errorf("%+v", p)
		}
	}
	again := gyrotest.Open(t, nodes[1], nil)
	again.Connect(nil)
	r := again.Subscribe("news", &protocol.SubscribeRequest{Recover: true, Epoch: sub.Epoch, Offset: 0})
	if !r.Recovered || len(r.Publications) != 2 {
		t.Errorf("%+v", r)
	}
}
