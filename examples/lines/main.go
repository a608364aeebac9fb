// Lines: a transport of one's own. Clients speak over TCP, one JSON message per line.
//
//	go run ./examples/lines
//	printf '%s\n' '{"id":1,"connect":{}}' '{"id":2,"subscribe":{"channel":"news"}}' | nc localhost 8005
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gyrohq/gyro"
)

func main() {
	address := flag.String("address", "localhost:8005", "address to listen on")
	flag.Parse()
	if err := run(*address); err != nil {
		log.Fatal(err)
	}
}

// Clients are anonymous, and may follow and publish news.
func config() gyro.Config {
	allowed := func(ch string) error {
		if ch != "news" {
			return gyro.ErrorPermissionDenied
		}
		return nil
	}
	return gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{}}, nil
		},
		Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{}, allowed(e.Channel)
		},
		Publish: func(_ context.Context, _ *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
			return gyro.PublishReply{}, allowed(e.Channel)
		},
	}}
}

func newNode(cfg gyro.Config) (*gyro.Node, error) {
	node, err := gyro.New(cfg)
	if err != nil {
		return nil, err
	}
	return node, node.Run()
}

func run(address string) error {
	node, err := newNode(config())
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- Serve(ctx, ln, node) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	_ = ln.Close() // no further clients
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err = node.Shutdown(ctx)
	if ended := <-failed; !errors.Is(ended, net.ErrClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
