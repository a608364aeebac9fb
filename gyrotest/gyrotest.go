// Package gyrotest is for tests of programs that use package gyro: nodes that end with their
// test, and a client that speaks the protocol.
//
// A client is connected by a real WebSocket, to NewServer or to the program's own server:
//
//	server := gyrotest.NewServer(t, gyro.Config{Handlers: handlers()})
//	ann := gyrotest.Dial(t, server.URL, nil)
//	ann.Connect(&protocol.ConnectRequest{Token: "ann's"})
//	ann.Subscribe("news", nil)
//	ann.Publish("news", `{"text":"hello"}`)
//	if p := ann.Publication("news"); string(p.Data) != `{"text":"hello"}` {
//		t.Errorf("got %s", p.Data)
//	}
//
// or in memory (Open), without a socket. Clients in memory work in the bubbles of testing/synctest, where time is
// virtual: a test that waits for an hour takes no time.
//
// No method waits forever: the test fails when Options.Timeout has passed, or the connection has ended, and the failure
// lists the messages that came instead.
package gyrotest

import (
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/transport/websocket"
)

const shutdownTimeout = 10 * time.Second

// NewNode returns a node that runs until the test ends, which fails if a client or a handler keeps it from ending within
// 10 s. If cfg.Logger is nil, the log goes to the test's output, where it says why the node refused something.
func NewNode(tb testing.TB, cfg gyro.Config) *gyro.Node {
	tb.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(newOutput(tb), nil))
	}
	node, err := gyro.New(cfg)
	if err == nil {
		err = node.Run()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if err := node.Shutdown(ctx); err != nil {
			tb.Errorf("the node does not end: %v", err)
		}
	})
	return node
}

// Server is a node with a WebSocket endpoint on 127.0.0.1.
type Server struct {
	Node *gyro.Node
	// URL of the endpoint, for Dial.
	URL string
}

// NewServer starts a node like NewNode, and serves WebSocket on a free port of 127.0.0.1 until the test ends. A program
// with routes of its own uses httptest.NewServer.
func NewServer(tb testing.TB, cfg gyro.Config) *Server {
	tb.Helper()
	node := NewNode(tb, cfg)
	s := httptest.NewServer(websocket.NewHandler(node, websocket.Config{}))
	tb.Cleanup(s.Close)
	return &Server{Node: node, URL: "ws" + strings.TrimPrefix(s.URL, "http")}
}

// output is the test's output while the test runs.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func newOutput(tb testing.TB) *output {
	o := &output{w: tb.Output()}
	tb.Cleanup(func() { // after the node's end
		o.mu.Lock()
		defer o.mu.Unlock()
		o.w = io.Discard
	})
	return o
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}
