package app

import (
	"strings"
	"testing"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
)

// TestProxyRefusals: each refusal of the backend leaves a line with the client's channel or method, the code and the proxy's key.
func TestProxyRefusals(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, nil)
		c := s.connect("42")
		for _, tt := range []struct{ event, answer, command, outcome, message, line string }{
			{"Subscribe", `{"error":{"code":403,"message":"no"}}`, `"subscribe":{"channel":"a"}`, "error 403",
				"subscribe refused", `"channel":"a","code":403,"reason":"the backend refuses it","key":"channel.proxy.subscribe"`},
			{"Publish", `{"error":{"code":429,"message":"slow down"}}`, `"publish":{"channel":"b","data":{}}`, "error 429",
				"publish refused", `"channel":"b","code":429,"reason":"the backend refuses it","key":"channel.proxy.publish"`},
			{"RPC", `{"error":{"code":404,"message":"no"}}`, `"rpc":{"method":"m"}`, "error 404",
				"RPC refused", `"method":"m","code":404,"reason":"the backend refuses it","key":"rpc.proxy"`},
			{"RPC", `<html>`, `"rpc":{"method":"n"}`, "error 100",
				"RPC refused", `"method":"n","code":100,"reason":"the backend gave no answer","key":"rpc.proxy"`},
		} {
			b.answer(tt.event, tt.answer)
			if got, _ := c.Outcome(tt.command); got != tt.outcome {
				t.Errorf("%s: %s, want %s", tt.command, got, tt.outcome)
			}
			s.awaitLog(`"message":"`+tt.message+`"`, tt.line)
		}
		flight := s.api("flight", `{"user":"42"}`)
		for _, part := range []string{"subscribe refused", "publish refused", "RPC refused", "the backend refuses it", "the backend gave no answer", "channel.proxy.subscribe"} {
			if !strings.Contains(flight, part) {
				t.Errorf("the flight recorder lacks %q: %s", part, flight)
			}
		}
		if got := s.api("explain", `{"user":"42","channel":"a"}`); !strings.Contains(got, "the backend refuses it") {
			t.Errorf("explain does not tell of the backend's refusal: %s", got)
		}
		b.answer("Connect", `{"disconnect":{"code":4503,"reason":"blocked"}}`)
		if got, _ := s.dial(nil).Outcome(`"connect":{}`); got != "disconnect 4503" {
			t.Error(got)
		}
		s.awaitLog(`"message":"connect refused"`, `"code":4503,"reason":"the backend refuses it","key":"client.proxy.connect"`)
	})
}

// TestPayloadsAreNoFailures: clients that send what cannot be written as JSON are refused by themselves. The backend is not
// asked, and goes on to answer honest clients.
func TestPayloadsAreNoFailures(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		if b.endpoint("")[:4] != "http" {
			return // Protobuf has any bytes
		}
		s := startProxied(t, b, func(cfg *config.Config) {
			cfg.RPC.Proxy.Breaker.Failures, cfg.Client.Proxy.Connect.Breaker.Failures = 3, 3
		})
		evil := wstest.Dial(t, s.url("/connection/websocket?cf_protocol=protobuf"), nil)
		evil.Connect(s.tokenField(map[string]any{"sub": "eve"}))
		rpc := protocol.Command{RPC: &protocol.RPCRequest{Method: "m", Data: []byte{0xff}}}
		for id := uint32(100); id < 150; id++ {
			rpc.ID = id
			evil.Raw(rpc.AppendDelimited(nil))
			if r := evil.Await(id); r.Error == nil || r.Error.Code != protocol.ErrorBadRequest.Code {
				t.Fatalf("%+v", r)
			}
			connect := protocol.Command{ID: 1, Connect: &protocol.ConnectRequest{Data: []byte{0xff}}}
			other := wstest.Dial(t, s.url("/connection/websocket?cf_protocol=protobuf"), nil)
			other.Raw(connect.AppendDelimited(nil))
			if r := other.Await(1); r.Error == nil || r.Error.Code != protocol.ErrorBadRequest.Code {
				t.Fatalf("%+v", r)
			}
		}
		b.answer("Connect", `{"result":{"user":"ann"}}`)
		honest := s.dial(nil)
		honest.Connect("")
		honest.Do(`"rpc":{"method":"m","data":{}}`)
		b.mu.Lock()
		defer b.mu.Unlock()
		if n, m := len(b.asked["RPC"]), len(b.asked["Connect"]); n != 1 || m != 1 {
			t.Errorf("the backend was asked %d times about RPCs, %d times about connects", n, m)
		}
	})
}
