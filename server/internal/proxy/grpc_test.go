package proxy

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/gyrohq/gyro/server/internal/testkit/proxytest"
)

// A service configuration, which the DNS can give, makes no call again.
func TestNoRetryByPolicy(t *testing.T) {
	const policy = `{"methodConfig":[{"name":[{}],"retryPolicy":{
		"maxAttempts":5,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`
	var asked atomic.Int32
	c := proxytest.Carriers[1]
	s := c.Start(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", fmt.Sprint(uint32(codes.Unavailable))) // with the headers: only such calls are retried
	})
	r := manual.NewBuilderWithScheme("policy")
	r.BuildCallback = func(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) {
		r.InitialState(resolver.State{
			Addresses: []resolver.Address{{Addr: s.Listener.Addr().String()}}, ServiceConfig: cc.ParseServiceConfig(policy),
		})
	}
	resolver.Register(r)
	p, _ := open(t, RPC, settings("policy:///backend"))
	if _, err := rpc(p); err == nil || asked.Load() != 1 {
		t.Errorf("asked %d times, error %v", asked.Load(), err)
	}
}

// An unreachable backend is tried about once a second, however long it has been away, so that it is
// in use soon when it is back.
func TestReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried atomic.Int32
		o := settings(inMemory)
		o.Breaker.Failures = 0
		p, _ := open(t, RPC, o)
		connectTo(t, p, func() net.Conn {
			tried.Add(1)
			client, server := net.Pipe()
			server.Close()
			return client
		})
		for begin := time.Now(); tried.Load() < 8; time.Sleep(10 * time.Millisecond) {
			if _, err := rpc(p); err == nil {
				t.Fatal("no error")
			}
			if time.Since(begin) > 10*time.Second { // with the backoff of gRPC, 8 attempts take half a minute
				t.Fatalf("%d attempts", tried.Load())
			}
		}
	})
}
