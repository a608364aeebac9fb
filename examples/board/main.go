// Board: cards that everybody who opens http://localhost:8001/?user=NAME can add, write on, move and remove, with the
// pointers and the names of all users present. Its page uses the SDK for JavaScript, which must be installed:
// npm install centrifuge
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
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/transport/websocket"
)

//go:embed index.html
var page []byte

const (
	cards    = "cards"    // by the key that the page makes up
	pointers = "pointers" // by client
	people   = "people"   // by client, kept by the node
)

// Cards stay until a user removes them. Clients that were away get the last 1,000 changes, or all cards.
var cardOptions = channel.MapOptions{StreamSize: 1000, StreamTTL: time.Hour, MaxEntries: 1000}

// A pointer that does not move disappears.
var pointerOptions = channel.MapOptions{KeyTTL: 5 * time.Second}

// The node renews the entries of people in time.
var peopleOptions = channel.MapOptions{KeyTTL: time.Minute, StreamSize: 100, StreamTTL: time.Minute}

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
	fmt.Printf("board at http://%s/?user=ann\n", *address)
	log.Fatal(http.ListenAndServe(*address, routes(node, *sdk)))
}

func newNode() (*gyro.Node, error) {
	node, err := gyro.New(gyro.Config{Handlers: gyro.Handlers{Subscribe: subscribe, MapChange: change}})
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
	var o gyro.SubscribeOptions
	switch e.Channel {
	case cards:
		o.Map = &channel.MapSubscription{Kind: channel.MapData}
		o.PresenceMaps = []channel.PresenceMap{{Channel: people, Kind: channel.MapClients, Options: peopleOptions}}
	case pointers:
		// The SDK sends the newest place alone if the pointer moves faster.
		o.Map, o.PublishDebounce = &channel.MapSubscription{Kind: channel.MapData, Ephemeral: true}, 50*time.Millisecond
	case people:
		o.Map = &channel.MapSubscription{Kind: channel.MapClients}
	default:
		return gyro.SubscribeReply{}, gyro.ErrorPermissionDenied
	}
	return gyro.SubscribeReply{Options: o}, nil
}

func change(_ context.Context, c *gyro.Client, e gyro.MapChangeEvent) (gyro.MapChangeReply, error) {
	switch {
	case !e.Subscribed || len(e.Key) > 40 || len(e.Data) > 1000:
	case e.Channel == cards:
		return gyro.MapChangeReply{Options: cardOptions}, nil
	case e.Channel == pointers:
		return gyro.MapChangeReply{Options: pointerOptions, Key: c.ID()}, nil // a client moves its own pointer alone
	}
	return gyro.MapChangeReply{}, gyro.ErrorPermissionDenied
}
