// A server made of the library, with the engine of another file: clients over WebSocket. It
// prints its address and runs until its input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/transport/websocket"
)

func main() {
	config := gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "guest"}}, nil
		},
		Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{}, nil
		},
		Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
			return gyro.PublishReply{}, nil
		},
	}}
	var err error
	if config.Broker, config.Presence, err = engine(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
	node, err := gyro.New(config)
	if err == nil {
		err = node.Run()
	}
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(ln, websocket.NewHandler(node, websocket.Config{}))) }()
	fmt.Println(ln.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}
