package proxy

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/gyrohq/gyro/server/internal/proxytest"
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
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	tried := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
			tried <- struct{}{}
		}
	}()
	o := settings(l.Addr().String())
	o.Breaker.Failures = 0
	p, _ := open(t, RPC, o)
	calls := time.NewTicker(10 * time.Millisecond)
	defer calls.Stop()
	late := time.After(20 * time.Second) // with the backoff of gRPC, 8 attempts take half a minute
	for n := 0; n < 8; {
		select {
		case <-tried:
			n++
		case <-calls.C:
			if _, err := rpc(p); err == nil {
				t.Fatal("no error")
			}
		case <-late:
			t.Fatalf("%d attempts", n)
		}
	}
}
