package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/proxytest"
	"github.com/gyrohq/gyro/server/proxy/message"
	"github.com/gyrohq/gyro/transport/front/fronttest"
)

// numbered answers a call with its number.
func numbered(c proxytest.Carrier, w http.ResponseWriter, n int32) {
	c.Answer(w, &message.RPCResponse{Result: &message.RPCResult{Data: fmt.Append(nil, n)}})
}

// Each fault of a backend is a failure of the calls that meet it, and of no others. The backend is
// asked once for each call, the log tells once, and the next calls get their own answers.
func TestFaults(t *testing.T) {
	for _, c := range proxytest.Carriers {
		for _, fault := range proxytest.Faults {
			t.Run(c.Name+"/"+fault.Name, func(t *testing.T) {
				t.Parallel()
				if fault.Slow {
					synctest.Test(t, func(t *testing.T) { testFault(t, c, &fault) })
				} else {
					testFault(t, c, &fault)
				}
			})
		}
	}
}

// testFault tests a fault with sockets, or a slow one in memory.
func testFault(t *testing.T, c proxytest.Carrier, fault *proxytest.Fault) {
	var faulty atomic.Bool
	var asked atomic.Int32
	answer := func(w http.ResponseWriter, r *http.Request) {
		_ = c.Read(r, nil)
		n := asked.Add(1)
		if faulty.Load() {
			fault.Do(c, w, r)
			return
		}
		numbered(c, w, n)
	}
	var p *Proxy
	var out *logs
	if fault.Slow {
		pipes := fronttest.NewPipes()
		s := c.Server(answer)
		go s.Serve(pipes)
		t.Cleanup(func() { s.Close() })
		p, out = open(t, RPC, settings(c.Endpoint(inMemory, "RPC")))
		connectTo(t, p, pipes.Dial)
	} else {
		p, out = open(t, RPC, settings(c.Endpoint(c.Start(t, answer).Listener.Addr().String(), "RPC")))
	}
	well(t, p, &asked)
	faulty.Store(true)
	for range 2 { // a third failure in a row would open the breaker
		var f *Failure
		if _, err := rpc(p); !errors.As(err, &f) || f.Key != "rpc.proxy" || f.Event != RPC || !strings.Contains(err.Error(), fault.Error(c)) {
			t.Errorf("%v, want %s", err, fault.Error(c))
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), "gives no answer") {
		t.Errorf("%d lines:\n%s", n, out)
	}
	faulty.Store(false)
	for range 3 {
		well(t, p, &asked)
	}
	if n := asked.Load(); n != 6 {
		t.Errorf("the backend was asked %d times for 6 calls", n)
	}
}

// well makes a call to a backend that is well: the answer is the one to this very call.
func well(t *testing.T, p *Proxy, asked *atomic.Int32) {
	t.Helper()
	if res, err := rpc(p); err != nil || res.Result == nil || string(res.Result.Data) != fmt.Sprint(asked.Load()) {
		t.Errorf("answer %+v to call %d, error %v", res.Result, asked.Load(), err)
	}
}

// A backend that nobody can reach is asked again when it is back.
func TestUnreachable(t *testing.T) {
	for _, c := range proxytest.Carriers {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			handler := func(w http.ResponseWriter, _ *http.Request) { numbered(c, w, asked.Add(1)) }
			address := porttest.Address(t)
			s := c.Server(handler)
			go s.Serve(listen(t, address))
			o := settings(c.Endpoint(address, "RPC"))
			o.Breaker.Failures = 0
			p, out := open(t, RPC, o)
			well(t, p, &asked)
			s.Close()
			for range 3 {
				if _, err := rpc(p); err == nil {
					t.Error("no error")
				}
			}
			if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), address) {
				t.Errorf("%d lines:\n%s", n, out)
			}
			again := c.Server(handler)
			defer again.Close()
			l := listen(t, address)
			go again.Serve(l)
			wait.Success(t, "an answer of the backend that is back", func() error { _, err := rpc(p); return err })
			well(t, p, &asked)
		})
	}
}
