// Chat: a room for everybody who opens http://localhost:8001/?user=NAME. Its page uses the SDK for JavaScript, which
// must be installed: npm install centrifuge
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/transport/websocket"
)

//go:embed index.html
var page []byte

func main() {
	address := flag.String("address", "localhost:8001", "address to listen on")
	sdk := flag.String("sdk", "node_modules/centrifuge/dist/centrifuge.js", "file of the SDK for JavaScript")
	flag.Parse()
	if _, err := os.Stat(*sdk); err != nil {
		log.Fatalf("there is no SDK for the page: %v (npm install centrifuge)", err)
	}
	node, err := newNode()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("chat at http://%s/?user=ann\n", *address)
	log.Fatal(http.ListenAndServe(*address, routes(node, *sdk)))
}

func newNode() (*gyro.Node, error) {
	node, err := gyro.New(gyro.Config{
		// The room keeps its last messages, for new and for returning users.
		Channel:  gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 100, HistoryTTL: time.Hour}),
		Handlers: gyro.Handlers{Subscribe: subscribe, Publish: publish, Presence: presence, History: history},
	})
	if err != nil {
		return nil, err
	}
	return node, node.Run()
}

func routes(node *gyro.Node, sdk string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	mux.HandleFunc("GET /centrifuge.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, sdk) })
	mux.Handle("/ws", login(websocket.NewHandler(node, websocket.Config{})))
	return mux
}

// login takes the user from the address, without a check; the examples auth and accounts have one.
func login(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := &gyro.Credentials{UserID: r.URL.Query().Get("user")}
		next.ServeHTTP(w, r.WithContext(gyro.SetCredentials(r.Context(), who)))
	})
}

func subscribe(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	if e.Channel != "room" {
		return gyro.SubscribeReply{}, gyro.ErrorPermissionDenied
	}
	return gyro.SubscribeReply{Options: gyro.SubscribeOptions{
		Presence: true, EmitJoinLeave: true, PushJoinLeave: true, Recoverable: true,
	}}, nil
}

func publish(_ context.Context, _ *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
	if !e.Subscribed || len(e.Data) > 1000 {
		return gyro.PublishReply{}, gyro.ErrorPermissionDenied
	}
	return gyro.PublishReply{}, nil
}

func presence(_ context.Context, _ *gyro.Client, e gyro.PresenceEvent) (gyro.PresenceReply, error) {
	return gyro.PresenceReply{}, member(e.Subscribed)
}

func history(_ context.Context, _ *gyro.Client, e gyro.HistoryEvent) (gyro.HistoryReply, error) {
	return gyro.HistoryReply{}, member(e.Subscribed)
}

func member(subscribed bool) error {
	if !subscribed {
		return gyro.ErrorPermissionDenied
	}
	return nil
}
