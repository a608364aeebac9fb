package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/protocol"
)

func start(t *testing.T) *gyrotest.Client {
	node, err := newNode()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c := gyrotest.Open(t, node, &gyrotest.Options{Timeout: time.Hour})
	c.Connect(nil)
	return c
}

func TestCalls(t *testing.T) {
	c := start(t)
	for _, tc := range []struct {
		method, params string
		want           string
		err            error
	}{
		{"divide", `{"dividend":17,"divisor":5}`, `{"quotient":3,"remainder":2}`, nil},
		{"divide", `{"dividend":17}`, "", errDivisor},
		{"divide", `"x"`, "", gyro.ErrorBadRequest},
		{"divide", "", "", gyro.ErrorBadRequest},
		{"remind", `{"seconds":-1}`, "", gyro.ErrorLimitExceeded},
		{"multiply", "", "", gyro.ErrorMethodNotFound},
	} {
		r, err := c.Try(&protocol.Command{RPC: &protocol.RPCRequest{Method: tc.method, Data: []byte(tc.params)}})
		if !errors.Is(err, tc.err) || err == nil && string(r.RPC.Data) != tc.want {
			t.Errorf("%s(%s): got %+v, %v", tc.method, tc.params, r, err)
		}
	}
}

// The time is virtual, so the test takes none.
func TestReminder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		before := time.Now()
		c.RPC("remind", `{"text":"tea","seconds":180}`)
		if p := c.Push(); p.Message == nil || string(p.Message.Data) != `"tea"` || time.Since(before) < 3*time.Minute {
			t.Errorf("got %+v after %v", p, time.Since(before))
		}
	})
}

func TestMessages(t *testing.T) {
	c := start(t)
	c.Message(`[1,2]`)
	if p := c.Push(); p.Message == nil || string(p.Message.Data) != `[1,2]` {
		t.Errorf("got %+v", p)
	}
}
