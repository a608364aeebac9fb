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
	"github.com/gyrohq/gyro/server/internal/proxy/message"
	"github.com/gyrohq/gyro/server/internal/testkit/proxytest"
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

// The proxy does not ask a backend for a while that is down. It goes on to ask a backend whose answers are useless: the cause may
// be a payload of one client, and other clients must not lose the backend for it.
func TestBreakerByFault(t *testing.T) {
	for _, c := range proxytest.Carriers {
		for _, fault := range proxytest.Faults {
			if fault.Slow {
				continue
			}
			t.Run(c.Name+"/"+fault.Name, func(t *testing.T) {
				t.Parallel()
				var asked atomic.Int32
				s := c.Start(t, func(w http.ResponseWriter, r *http.Request) {
					_ = c.Read(r, nil)
					asked.Add(1)
					fault.Do(c, w, r)
				})
				o := settings(c.Endpoint(s.Listener.Addr().String(), "RPC"))
				p, _ := open(t, RPC, o)
				for range o.Breaker.Failures {
					if _, err := rpc(p); err == nil || errors.Is(err, errOpen) {
						t.Error(err)
					}
				}
				if _, err := rpc(p); errors.Is(err, errOpen) != fault.Down(c) || err == nil {
					t.Errorf("down %v: %v", fault.Down(c), err)
				}
			})
		}
	}
}

// Clients that send what cannot be written as JSON are refused before the backend is asked, however many they are.
func TestNotJSON(t *testing.T) {
	var asked atomic.Int32
	s := backend(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); fmt.Fprint(w, `{}`) })
	p, out := open(t, RPC, settings(s.URL))
	m := new(counts)
	p.meter = m
	for range 1000 {
		err := p.Call(t.Context(), nil, &message.RPCRequest{Data: []byte{0xff}}, new(message.RPCResponse))
		if !errors.Is(err, ErrNotJSON) {
			t.Fatal(err)
		}
	}
	if _, err := rpc(p); err != nil || asked.Load() != 1 || m.began != 1 || out.String() != "" {
		t.Errorf("error %v, asked %d times, measured %+v, logged %s", err, asked.Load(), m, out)
	}
}

// Proxies forward a bounded part of a client's headers. Backends answer long headers with an error, so a client could use long
// headers to keep its backend from deciding.
func TestLongHeaders(t *testing.T) {
	c := settings("http://localhost:1")
	c.HTTPHeaders, c.EmulatedHeaders = []string{"Cookie", "X-A", "X-B"}, []string{"X-C", "X-D"}
	p, _ := open(t, RPC, c)
	text := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		cookie, a, b, c, d int
		left               string
	}{
		{8000, 0, 0, 0, 0, ""},
		{8192 - 6, 0, 0, 0, 0, ""},
		{8192 - 5, 100, 100, 0, 0, "Cookie"},
		{8000, 100, 100, 0, 0, "X-B"},
		{20_000, 100, 100, 100, 8000, "Cookie X-D"},
		{8000, 0, 0, 500, 100, "X-C"},
	} {
		header, emulated := http.Header{}, map[string]string{}
		for name, n := range map[string]int{"Cookie": tt.cookie, "X-A": tt.a, "X-B": tt.b} {
			if n > 0 {
				header.Set(name, text(n))
			}
		}
		for name, n := range map[string]int{"x-c": tt.c, "x-d": tt.d} {
			if n > 0 {
				emulated[name] = text(n)
			}
		}
		from, left := NewKeeper(8192, p).Keep(false, func() http.Header { return header }, emulated)
		size := 0
		p.forward.fields(from, func(name string, values []string) { size += len(name) + len(strings.Join(values, "")) })
		if got := strings.Join(left.Long, " "); got != tt.left || size > 8192 || len(left.Forged) > 0 {
			t.Errorf("%+v: %q is left out, %d bytes are forwarded", tt, got, size)
		}
	}
	header := http.Header{"Cookie": {text(5000), text(5000)}}
	if _, left := NewKeeper(8192, p).Keep(false, func() http.Header { return header }, nil); len(left.Long) != 1 {
		t.Error("two cookies of 5,000 bytes are forwarded")
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
