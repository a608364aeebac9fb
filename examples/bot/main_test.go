package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket"
)

const room = "room"

// server has the room, and users whose names are their tokens.
type server struct {
	t    *testing.T
	node *gyro.Node
	http *httptest.Server
	// The bot subscribes when open is closed.
	open chan struct{}
	// If mute, nothing that the bot says is published or confirmed; said then has an element when it has said something.
	mute bool
	said chan struct{}
}

// start runs a server on an address.
func start(t *testing.T, address string, mute bool) *server {
	t.Helper()
	s := &server{t: t, open: make(chan struct{}), mute: mute, said: make(chan struct{}, 1)}
	node, err := gyro.New(gyro.Config{
		Channel:  gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 100, HistoryTTL: time.Hour}),
		Handlers: gyro.Handlers{Connecting: s.connect, Subscribe: s.subscribe, Publish: s.publish},
	})
	if err == nil {
		s.node, err = node, node.Run()
	}
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: websocket.NewHandler(node, websocket.Config{})}}
	s.http.Start()
	return s
}

func (s *server) connect(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
	return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: e.Token}}, nil
}

func (s *server) subscribe(ctx context.Context, c *gyro.Client, _ gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	if c.UserID() == "bot" {
		select {
		case <-s.open:
		case <-ctx.Done():
		}
	}
	return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Recoverable: true, EmitJoinLeave: true, PushJoinLeave: true}}, nil
}

func (s *server) publish(ctx context.Context, c *gyro.Client, _ gyro.PublishEvent) (gyro.PublishReply, error) {
	if s.mute && c.UserID() == "bot" {
		s.said <- struct{}{}
		<-ctx.Done()
		return gyro.PublishReply{}, ctx.Err()
	}
	return gyro.PublishReply{}, nil
}

// enter brings Ann into the room, and then the bot.
func (s *server) enter() *gyrotest.Client {
	s.t.Helper()
	ann := gyrotest.Dial(s.t, s.http.URL, nil)
	ann.Connect(&protocol.ConnectRequest{Token: "ann"})
	ann.Subscribe(room, nil)
	close(s.open)
	for range 2 {
		ann.Join(room) // her own, and that of the bot
	}
	return ann
}

func (s *server) stop() {
	s.t.Helper()
	s.http.Listener.Close() // nobody comes back to a server that shuts down
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if s.mute {
		cancel() // all are disconnected; what then waits for the handler goes on in the background
	}
	if err := s.node.Shutdown(ctx); err != nil && !s.mute {
		s.t.Error(err)
	}
	s.http.Close()
}

// hear returns the next message of the room.
func hear(t *testing.T, c *gyrotest.Client) (m message) {
	t.Helper()
	if err := json.Unmarshal(c.Publication(room).Data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRestart: the server ends before it has confirmed an answer. The bot is there again, and answers once more.
func TestRestart(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	first := start(t, porttest.Address(t), true)
	go func() {
		ended <- run(ctx, strings.Replace(first.http.URL, "http", "ws", 1), room, func(context.Context) (string, error) { return "bot", nil })
	}()
	ann := first.enter()
	ann.Publish(room, `{"id":"1","text":"hello"}`)
	ann.Publish(room, `["not a message"]`)
	ann.Publish(room, `{"id":"2","text":"/roll 2d6"}`)
	<-first.said
	first.stop()

	second := start(t, first.http.Listener.Addr().String(), false)
	defer second.stop()
	ann = second.enter()
	want, _ := answer("ann", message{ID: "2", Text: "/roll 2d6"})
	if m := hear(t, ann); m.ID != "answer to 2" || m.Text != want {
		t.Errorf("got %+v, want %q", m, want)
	}
	ann.Publish(room, `{"id":"3","text":"/help"}`)
	hear(t, ann) // what she wrote
	if m := hear(t, ann); m.ID != "answer to 3" || m.Text != usage {
		t.Errorf("got %+v", m)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it has ended by %v", err)
	}
}

// TestRefused: a bot that is disconnected for good ends.
func TestRefused(t *testing.T) {
	s := start(t, "127.0.0.1:0", false)
	defer s.stop()
	ended := make(chan error)
	go func() {
		ended <- run(t.Context(), strings.Replace(s.http.URL, "http", "ws", 1), room, func(context.Context) (string, error) { return "bot", nil })
	}()
	s.enter()
	if err := s.node.Users().Disconnect(t.Context(), gyro.Target{User: "bot"}, nil); err != nil {
		t.Fatal(err)
	}
	var reason client.Reason
	if err := <-ended; !errors.As(err, &reason) || reason.Code != gyro.DisconnectForceNoReconnect.Code {
		t.Errorf("it has ended by %v", err)
	}
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"hello", ""},
		{"/rolling", ""},
		{"/help", usage},
		{"/roll", usage},
		{"/roll 0d6", usage},
		{"/roll 11d6", usage},
		{"/roll 1d1", usage},
		{"/roll 1d101", usage},
		{" /roll 1d2 ", "ann rolled "},
		{"/roll 10d100", "ann rolled "},
	} {
		got, ok := answer("ann", message{ID: "1", Text: c.text})
		if ok != (c.want != "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: got %q, %v", c.text, got, ok)
		}
		if again, _ := answer("ann", message{ID: "1", Text: c.text}); again != got {
			t.Errorf("%q: got %q, and then %q", c.text, got, again)
		}
	}
}
