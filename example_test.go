package gyro_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/transport/websocket"
)

// A node with one rule for subscriptions, behind a WebSocket address.
func Example() {
	node, err := gyro.New(gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			if e.Token != "let me in" {
				return gyro.ConnectReply{}, gyro.DisconnectInvalidToken
			}
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "42"}}, nil
		},
		Subscribe: func(_ context.Context, c *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			if e.Channel != "news" && e.Channel != "user:"+c.UserID() {
				return gyro.SubscribeReply{}, gyro.ErrorPermissionDenied
			}
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Recoverable: true}}, nil
		},
	}})
	if err != nil {
		log.Fatal(err)
	}
	if err := node.Run(); err != nil {
		log.Fatal(err)
	}
	http.Handle("/connection/websocket", websocket.NewHandler(node, websocket.Config{}))
	log.Fatal(http.ListenAndServe("localhost:8000", nil))
}

func ExampleNode_Publish() {
	node, err := gyro.New(gyro.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := node.Run(); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer node.Shutdown(ctx)

	for _, text := range []string{`"one"`, `"two"`, `"two"`} {
		// The latest 100 publications are kept for an hour, so that clients that were
		// away can catch up.
		res, err := node.Publish(ctx, "news", []byte(text), &gyro.PublishOptions{
			HistorySize: 100, HistoryTTL: time.Hour, IdempotencyKey: text,
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("offset %d, suppressed by %q\n", res.Position.Offset, res.Suppressed)
	}
	h, err := node.History(ctx, "news", &gyro.HistoryFilter{Limit: 10, Reverse: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range h.Publications {
		fmt.Printf("%d %s\n", p.Offset, p.Data)
	}
	// Output:
	// offset 1, suppressed by ""
	// offset 2, suppressed by ""
	// offset 2, suppressed by "idempotency"
	// 2 "two"
	// 1 "one"
}

func ExampleUsers_Disconnect() {
	node, err := gyro.New(gyro.Config{})
	if err != nil {
		log.Fatal(err)
	}
	// All connections of the user but this one, for good.
	reason := gyro.Disconnect{Code: 4500, Reason: "logged in elsewhere"}
	err = node.Users().Disconnect(context.Background(), gyro.Target{User: "42"}, &gyro.DisconnectOptions{
		Disconnect: &reason, Whitelist: []string{"client-id"},
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleUsers_Subscribe() {
	node, err := gyro.New(gyro.Config{})
	if err != nil {
		log.Fatal(err)
	}
	// The user's clients need not ask: they are told that they are subscribed.
	options := &gyro.SubscribeOptions{Presence: true, EmitJoinLeave: true}
	if err := node.Users().Subscribe(context.Background(), gyro.Target{User: "42"}, "lobby", options); err != nil {
		log.Fatal(err)
	}
}

// An interceptor is around all handlers: here one that measures and one that refuses.
func ExampleInterceptor() {
	measure := func(next gyro.HandlerFunc) gyro.HandlerFunc {
		return func(ctx context.Context, call gyro.Call) (any, error) {
			start := time.Now()
			reply, err := next(ctx, call)
			fmt.Printf("%s took less than a minute: %t, error: %v\n", call.Handler, time.Since(start) < time.Minute, err)
			return reply, err
		}
	}
	refuse := func(next gyro.HandlerFunc) gyro.HandlerFunc {
		return func(ctx context.Context, call gyro.Call) (any, error) {
			if e, ok := call.Event.(gyro.SurveyEvent); ok && e.Op == "secret" {
				return gyro.SurveyReply{Code: gyro.SurveyInvalid}, nil
			}
			return next(ctx, call)
		}
	}
	node, err := gyro.New(gyro.Config{
		Interceptors: []gyro.Interceptor{measure, refuse},
		Handlers: gyro.Handlers{Survey: func(context.Context, gyro.SurveyEvent) (gyro.SurveyReply, error) {
			return gyro.SurveyReply{Data: []byte("42")}, nil
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := node.Run(); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer node.Shutdown(ctx)
	for _, op := range []string{"answer", "secret"} {
		replies, err := node.Cluster().Survey(ctx, op, nil, node.UID())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("code %d, data %q\n", replies[node.UID()].Code, replies[node.UID()].Data)
	}
	// Output:
	// Survey took less than a minute: true, error: <nil>
	// code 0, data "42"
	// Survey took less than a minute: true, error: <nil>
	// code 2, data ""
}

// HTTP middleware authenticates the request; the connection is its user's.
func ExampleSetCredentials() {
	node, err := gyro.New(gyro.Config{})
	if err != nil {
		log.Fatal(err)
	}
	connections := websocket.NewHandler(node, websocket.Config{})
	http.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		user, _, ok := r.BasicAuth() // or a session cookie, …
		if !ok {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		ctx := gyro.SetCredentials(r.Context(), &gyro.Credentials{UserID: user})
		connections.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Errors are values: a *gyro.Error is the client's reply, a gyro.Disconnect
// ends the connection, anything else is logged and an internal error.
func ExampleHandlers() {
	busy := &gyro.Error{Code: 400, Message: "come back later", Temporary: true}
	_ = gyro.Handlers{
		RPC: func(ctx context.Context, c *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			switch e.Method {
			case "time":
				return fmt.Appendf(nil, "%q", time.Now().UTC().Format(time.RFC3339)), nil
			case "report":
				return nil, fmt.Errorf("report: %w", busy)
			}
			return nil, gyro.ErrorMethodNotFound
		},
		Message: func(ctx context.Context, c *gyro.Client, data []byte) error {
			if len(data) > 1000 {
				return gyro.DisconnectBadRequest
			}
			if err := c.Send(data); err != nil {
				log.Println(err)
			}
			return nil
		},
	}
}
