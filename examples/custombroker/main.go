// Custom broker: two nodes in one process that share channels, history and
// presence by way of a broker of our own. Clients of http://localhost:8004/a and
// http://localhost:8004/b are connected to different nodes and do not notice.
package main

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/transport/websocket"
)

func main() {
	bus, err := NewBus()
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, name := range []string{"a", "b"} {
		node, err := newNode(name, bus)
		if err != nil {
			log.Fatal(err)
		}
		mux.Handle("/"+name, websocket.NewHandler(node, websocket.Config{}))
	}
	log.Fatal(http.ListenAndServe("localhost:8004", mux))
}

func newNode(name string, bus *Bus) (*gyro.Node, error) {
	node, err := gyro.New(gyro.Config{
		Name: name, Engine: bus.Engine(),
		Channel: gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 100, HistoryTTL: time.Hour}),
		Handlers: gyro.Handlers{
			Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
				return gyro.ConnectReply{Credentials: &gyro.Credentials{}}, nil
			},
			Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
				return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Presence: true, Recoverable: true}}, nil
			},
			Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
				return gyro.PublishReply{}, nil
			},
			Presence: func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceReply, error) {
				return gyro.PresenceReply{}, nil
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return node, node.Run()
}
