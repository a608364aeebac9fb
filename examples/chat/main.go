// Chat: a room for everybody who opens http://localhost:8001/?user=NAME.
package main

import (
	"context"
	"embed"
	"log"
	"net/http"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/transport/websocket"
)

//go:embed index.html
var page embed.FS

func main() {
	node, err := gyro.New(config())
	if err != nil {
		log.Fatal(err)
	}
	if err := node.Run(); err != nil {
		log.Fatal(err)
	}
	log.Println("chat at http://localhost:8001/?user=ann")
	log.Fatal(http.ListenAndServe("localhost:8001", routes(node)))
}

// config keeps the last messages of the room, so that who comes back gets what was missed.
func config() gyro.Config {
	return gyro.Config{
		Channel:  gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 100, HistoryTTL: time.Hour}),
		Handlers: gyro.Handlers{Subscribe: subscribe, Publish: publish},
	}
}

func routes(node *gyro.Node) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(page))
	mux.Handle("/ws", login(websocket.NewHandler(node, websocket.Config{})))
	return mux
}

// login takes the user from the address, without a check; the example auth has one.
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
	return gyro.SubscribeReply{Options: gyro.SubscribeOptions{EmitJoinLeave: true, PushJoinLeave: true, Recoverable: true}}, nil
}

func publish(_ context.Context, _ *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
	if !e.Subscribed || len(e.Data) > 1000 {
		return gyro.PublishReply{}, gyro.ErrorPermissionDenied
	}
	return gyro.PublishReply{}, nil
}
