package app

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/proxytest"
)

// eventsOf answers each event, by the request in JSON, with a fault or an answer in JSON.
func eventsOf(c proxytest.Carrier, decide func(event, request string) (*proxytest.Fault, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		event := path.Base(r.URL.Path)
		req, res := proxyMethods[event]()
		if err := c.Read(r, req); err != nil {
			return // the call was given up
		}
		fault, answer := decide(event, string(must(req.AppendJSON(nil))))
		if fault != nil {
			fault.Do(c, w, r)
			return
		}
		if err := res.UnmarshalJSON([]byte(answer)); err != nil {
			panic(err)
		}
		c.Answer(w, res)
	}
}

// asks configures the proxies of all events for a backend.
func asks(c proxytest.Carrier, address string, edit func(*config.Config)) func(*config.Config) {
	b := &testBackend{endpoint: func(event string) string { return c.Endpoint(address, event) }}
	return proxied(b, edit)
}

// Each fault of a backend fails the commands that meet it by error 100, and nothing else.
func TestFaultsOfBackends(t *testing.T) {
	t.Parallel()
	const well = "well"
	wish := regexp.MustCompile(`"wish":"([^"]*)"`)
	commands := map[string]string{
		"connect": `"connect":{"data":%s}`, "subscribe": `"subscribe":{"channel":"a","data":%s}`,
		"map_publish": `"publish":{"channel":"map:a","type":1,"key":"k","data":%s}`,
		"publish":     `"publish":{"channel":"a","data":%s}`, "rpc": `"rpc":{"method":"m","data":%s}`,
	}
	for _, c := range proxytest.Carriers {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			backend := c.Start(t, eventsOf(c, func(_, request string) (*proxytest.Fault, string) {
				if m := wish.FindStringSubmatch(request); m != nil {
					for i := range proxytest.Faults {
						if f := &proxytest.Faults[i]; f.Name == m[1] {
							return f, ""
						}
					}
				}
				return nil, `{"result":{}}`
			}))
			s := startServer(t, asks(c, backend.Listener.Addr().String(), func(cfg *config.Config) {
				for _, p := range []*config.Proxy{&cfg.Client.Proxy.Connect.Proxy, &cfg.Channel.Proxy.Subscribe, &cfg.Channel.Proxy.Publish, &cfg.Channel.Proxy.MapPublish, &cfg.RPC.Proxy} {
					p.Timeout, p.Breaker.Failures = 2*time.Second, 0
				}
				addNamespace(cfg, "map", func(o *config.ChannelOptions) {
					mapOn(o)
					o.Map.PublishProxyEnabled = true
				})
			}))
			s.expected = "backend"
			var wg sync.WaitGroup
			for _, f := range append([]proxytest.Fault{{Name: well}}, proxytest.Faults...) {
				for name, command := range commands {
					wg.Go(func() {
						cl := s.dial(nil)
						if name != "connect" {
							cl.Connect(fmt.Sprintf(`"data":{"wish":%q}`, well))
						}
						want := "error 100"
						if f.Name == well {
							want = "ok"
						}
						if got, _ := cl.Outcome(fmt.Sprintf(command, fmt.Sprintf(`{"wish":%q}`, f.Name))); got != want {
							t.Errorf("%s, a backend that %s: %s", name, f.Name, got)
						}
						if name != "connect" { // the client lives on, and is served
							cl.Do(fmt.Sprintf(`"rpc":{"method":"m","data":{"wish":%q}}`, well))
						}
					})
				}
			}
			wg.Wait()
		})
	}
}

// Codes that the protocol does not have reach no client, and the log tells of them.
func TestOddCodesOfBackends(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, nil)
		b.answer("Connect", `{"result":{}}`)
		for _, tt := range []struct{ answer, want string }{
			{`{"error":{}}`, "error 100"},
			{`{"error":{"code":7,"message":""}}`, "error 100"},
			{`{"error":{"code":1999,"message":"` + strings.Repeat("x", 10_000) + `"}}`, "error 1999"},
			{`{"error":{"code":4294967295,"message":"` + strings.Repeat("x", 10_000) + `"}}`, "error 100"},
			{`{"disconnect":{}}`, "disconnect 3004"},
			{`{"disconnect":{"code":5,"reason":"x"}}`, "disconnect 3004"},
			{`{"disconnect":{"code":2999,"reason":"x"}}`, "disconnect 3004"},
			{`{"disconnect":{"code":3011}}`, "disconnect 3011"},
			{`{"disconnect":{"code":70000,"reason":"x"}}`, "disconnect 3004"},
			{`{"disconnect":{"code":4294967295}}`, "disconnect 3004"},
			{`{"disconnect":{"code":4500,"reason":"` + strings.Repeat("ä", 1000) + `"}}`, "disconnect 4500"},
		} {
			for event, command := range map[string]string{"Connect": `"connect":{}`, "Subscribe": `"subscribe":{"channel":"a"}`, "RPC": `"rpc":{}`} {
				c := s.dial(nil)
				if event != "Connect" {
					c.Connect("")
				}
				b.answer(event, tt.answer)
				if got, _ := c.Outcome(command); got != tt.want {
					t.Errorf("%s %.50s: %s, want %s", event, tt.answer, got, tt.want)
				}
				b.answer(event, `{"result":{}}`)
			}
		}
		s.awaitLog("the code of an error is from 100 to 1999, not 7", "the code of a disconnect is from 3000 to 4999, not 5", `"key":"client.proxy.connect"`, `"key":"channel.proxy.subscribe"`, `"key":"rpc.proxy"`)
	})
}

// moodyBackend is a backend that has three states.
type moodyBackend struct {
	*httptest.Server
	state atomic.Int32
	asked atomic.Int64
	calls atomic.Int64 // that are under way
	most  atomic.Int64
}

// States of a moodyBackend.
const (
	healthy int32 = iota
	dead          // closes connections
	stuck         // answers after 10 s
)

func startMoody(t *testing.T, c proxytest.Carrier) *moodyBackend {
	b := new(moodyBackend)
	b.Server = c.Unstarted(eventsOf(c, func(string, string) (*proxytest.Fault, string) {
		b.asked.Add(1)
		n := b.calls.Add(1)
		defer b.calls.Add(-1)
		for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
		}
		switch b.state.Load() {
		case dead:
			panic(http.ErrAbortHandler)
		case stuck:
			return &proxytest.Fault{Do: func(_ proxytest.Carrier, _ http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(10 * time.Second):
				case <-r.Context().Done():
				}
			}}, ""
		}
		return nil, `{"result":{"user":"u"}}`
	}))
	b.Config.ConnState = func(nc net.Conn, state http.ConnState) {
		if state == http.StateNew && b.state.Load() == dead {
			nc.Close()
		}
	}
	b.Start()
	t.Cleanup(b.Close)
	return b
}

func (b *moodyBackend) become(state int32) {
	b.state.Store(state)
	if state == dead {
		b.CloseClientConnections()
	}
}

// A backend that is stuck, dies and comes back while thousands of clients connect: they all get in,
// it is not asked by more than it should, and everybody else is served meanwhile.
func TestBackendDownWhileClientsConnect(t *testing.T) {
	for i, c := range proxytest.Carriers {
		clients := []int64{5000, 1000}[i]
		t.Run(c.Name, func(t *testing.T) {
			const most = 64
			b := startMoody(t, c)
			b.become(stuck)
			s := startServerAt(t, "info", func(cfg *config.Config) {
				everything(cfg)
				open(&cfg.Channel.WithoutNamespace)
				cfg.RPC.Ping.Enabled = true
				p := &cfg.Client.Proxy.Connect
				p.Enabled, p.Endpoint, p.Timeout = true, c.Endpoint(b.Listener.Addr().String(), "Connect"), 500*time.Millisecond
				p.MaxConcurrency, p.Breaker.OpenFor = most, 100*time.Millisecond
			})
			s.expected = "backend"
			other := s.connect("other") // has a token
			other.Subscribe("a", "")
			crowd := s.startCrowd(int(clients))
			for _, state := range []int32{stuck, dead, stuck, healthy} {
				b.become(state)
				served := 0
				until := crowd.refused.Load() + clients/5
				if until < clients {
					until = clients // all of them have come
				}
				for ; !crowd.passed(state == healthy, until) && !t.Failed(); served++ {
					other.Do(`"publish":{"channel":"a","data":{}}`)
					other.Pub()
					other.Do(`"rpc":{"method":"ping"}`)
					s.api("presence", `{"channel":"a"}`)
				}
				t.Logf("state %d: %d refused, backend asked %d times, others served %d times", state, crowd.refused.Load(), b.asked.Load(), served)
			}
			if n := b.most.Load(); n > 2*most { // half of them are cut off by the timeout, and on their way out
				t.Errorf("%d calls at a time", n)
			}
			if b.asked.Load() > crowd.refused.Load()/2+2*clients {
				t.Errorf("asked %d times, %d refusals", b.asked.Load(), crowd.refused.Load())
			}
			s.wantMetric(0, "gyro_proxy_inflight_requests", "name=default", "protocol="+c.Name, "type=connect")
			s.wantMetric(float64(clients+1), "gyro_node_num_clients")
			if n := strings.Count(s.logged(), "backend") - strings.Count(s.logged(), "connect refused"); n > 20 {
				t.Errorf("%d lines about the backend:\n%s", n, s.logs)
			}
		})
	}
}

// crowd are clients that connect, again and again until they are in, as SDKs do.
type crowd struct {
	refused atomic.Int64
	in      chan struct{} // closed when all are
}

// passed tells whether all are in, or, if that is not waited for, whether n were refused.
func (c *crowd) passed(all bool, n int64) bool {
	select {
	case <-c.in:
		return true
	default:
		return !all && c.refused.Load() >= n
	}
}

// startCrowd lets clients connect. Few goroutines stand for all of them: the race detector allows no
// more than 8128.
func (s *testServer) startCrowd(clients int) *crowd {
	const workers = 20
	c := &crowd{in: make(chan struct{})}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for out := clients / workers; out > 0 && !s.t.Failed(); {
				out = c.round(s, out)
				time.Sleep(time.Duration(50+rand.IntN(50)) * time.Millisecond) // SDKs wait for longer
			}
		})
	}
	go func() { wg.Wait(); close(c.in) }()
	return c
}

// round lets clients connect once, and returns how many are refused. The others stay.
func (c *crowd) round(s *testServer, out int) (refused int) {
	var tried []*cheapClient
	for range out {
		one, err := s.dialCheap()
		if err != nil {
			s.t.Error(err)
			continue
		}
		tried = append(tried, one)
		one.start(`"connect":{}`)
	}
	for _, one := range tried {
		failed := new(protocol.Error)
		err := one.await(one.last)
		switch {
		case errors.As(err, &failed) && failed.Code == protocol.ErrorInternal.Code:
			c.refused.Add(1)
			refused++
			one.close()
			continue
		case err != nil:
			s.t.Error(err)
		}
		s.t.Cleanup(one.close)
	}
	return refused
}
