package main

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/gyrohq/gyro/internal/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket"
)

func start(t *testing.T) *wstest.Client {
	node, err := newNode()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(websocket.NewHandler(node, websocket.Config{}))
	t.Cleanup(func() {
		s.Close()
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c := wstest.Dial(t, s.URL, nil)
	c.Connect("")
	return c
}

func TestCalls(t *testing.T) {
	c := start(t)
	for _, tc := range []struct {
		rpc, want string
		code      uint32
	}{
		{rpc: `{"method":"divide","data":{"dividend":17,"divisor":5}}`, want: `{"quotient":3,"remainder":2}`},
		{rpc: `{"method":"divide","data":{"dividend":17}}`, code: errDivisor.Code},
		{rpc: `{"method":"divide","data":"x"}`, code: protocol.ErrorBadRequest.Code},
		{rpc: `{"method":"divide"}`, code: protocol.ErrorBadRequest.Code},
		{rpc: `{"method":"remind","data":{"seconds":-1}}`, code: protocol.ErrorLimitExceeded.Code},
		{rpc: `{"method":"multiply"}`, code: protocol.ErrorMethodNotFound.Code},
	} {
		r := c.Call(`"rpc":` + tc.rpc)
		switch {
		case r.Error != nil && r.Error.Code != tc.code:
			t.Errorf("%s: %v", tc.rpc, r.Error)
		case r.Error == nil && (tc.code != 0 || string(r.RPC.Data) != tc.want):
			t.Errorf("%s: got %s, want %s", tc.rpc, r.RPC.Data, tc.want)
		}
	}
}

func TestMessages(t *testing.T) {
	c := start(t)
	c.Do(`"rpc":{"method":"remind","data":{"text":"tea"}}`)
	if p := c.Push(); p.Message == nil || string(p.Message.Data) != `"tea"` {
		t.Errorf("got %+v", p)
	}
	c.Send(`{"send":{"data":[1,2]}}`)
	if p := c.Push(); p.Message == nil || string(p.Message.Data) != `[1,2]` {
		t.Errorf("got %+v", p)
	}
}
