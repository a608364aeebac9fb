// RPC: over one connection, clients call functions of the server with typed parameters, send
// messages that need no answer, and receive messages from the server.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/transport/websocket"
)

func main() {
	node, err := newNode()
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("localhost:8003", websocket.NewHandler(node, websocket.Config{})))
}

func newNode() (*gyro.Node, error) {
	node, err := gyro.New(gyro.Config{
		Handlers: gyro.Handlers{Connecting: connecting, RPC: call, Message: message},
		// Calls of one client may overtake each other.
		Concurrency: 8,
	})
	if err != nil {
		return nil, err
	}
	return node, node.Run()
}

func connecting(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
	return gyro.ConnectReply{Credentials: &gyro.Credentials{}}, nil
}

// method is a function that clients can call.
type method func(ctx context.Context, c *gyro.Client, params []byte) ([]byte, error)

var methods = map[string]method{
	"divide": typed(divide),
	"remind": typed(remind),
}

func call(ctx context.Context, c *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
	m, ok := methods[e.Method]
	if !ok {
		return nil, gyro.ErrorMethodNotFound
	}
	return m(ctx, c, e.Data)
}

// typed makes a method of a function on Go values.
func typed[In, Out any](f func(context.Context, *gyro.Client, In) (Out, error)) method {
	return func(ctx context.Context, c *gyro.Client, params []byte) ([]byte, error) {
		var in In
		if err := json.Unmarshal(params, &in); err != nil {
			return nil, gyro.ErrorBadRequest
		}
		out, err := f(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}

type division struct {
	Dividend int `json:"dividend"`
	Divisor  int `json:"divisor"`
}

type quotient struct {
	Quotient  int `json:"quotient"`
	Remainder int `json:"remainder"`
}

// Codes from 400 to 1999 are for errors of applications.
var errDivisor = gyro.Error{Code: 400, Message: "divisor must not be 0"}

func divide(_ context.Context, _ *gyro.Client, in division) (quotient, error) {
	if in.Divisor == 0 {
		return quotient{}, errDivisor
	}
	return quotient{in.Dividend / in.Divisor, in.Dividend % in.Divisor}, nil
}

type reminder struct {
	Text    string `json:"text"`
	Seconds int    `json:"seconds"`
}

// remind sends the client a message later, if it is still connected.
func remind(_ context.Context, c *gyro.Client, in reminder) (struct{}, error) {
	if in.Seconds < 0 || in.Seconds > 3600 {
		return struct{}{}, gyro.ErrorLimitExceeded
	}
	data, err := json.Marshal(in.Text)
	if err != nil {
		return struct{}{}, err
	}
	go func() {
		select {
		case <-time.After(time.Duration(in.Seconds) * time.Second):
			if err := c.Send(data); err != nil {
				log.Println(err)
			}
		case <-c.Context().Done():
		}
	}()
	return struct{}{}, nil
}

func message(_ context.Context, c *gyro.Client, data []byte) error {
	return c.Send(data)
}
