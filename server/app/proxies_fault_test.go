package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/config"
)

// downBackend is an HTTP backend that has three states.
type downBackend struct {
	state atomic.Int32
	asked atomic.Int64
	calls atomic.Int64 // that are under way
	most  atomic.Int64
}

// States of a downBackend.
const (
	healthy int32 = iota
	dead          // closes connections
	stuck         // answers after 10 s
)

func (b *downBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // then the context ends with the connection
	b.asked.Add(1)
	if n := b.calls.Add(1); n > b.most.Load() {
		b.most.Store(n)
	}
	defer b.calls.Add(-1)
	switch b.state.Load() {
	case dead:
		panic(http.ErrAbortHandler)
	case stuck:
		select {
		case <-time.After(10 * time.Second):
		case <-r.Context().Done():
		}
	}
	_, _ = w.Write([]byte(`{"result":{"user":"u"}}`))
}

// A backend that is stuck, dies and comes back while clients connect: they all get in, it is not
// asked by more than it should, and everybody else is served meanwhile.
func TestBackendDownWhileClientsConnect(t *testing.T) {
	t.Parallel()
	const clients = 200
	b := new(downBackend)
	b.state.Store(stuck)
	backend := httptest.NewServer(b)
	t.Cleanup(backend.Close)
	s := startServerAt(t, "info", func(cfg *config.Config) {
		everything(cfg)
		open(&cfg.Channel.WithoutNamespace)
		p := &cfg.Client.Proxy.Connect
		p.Enabled, p.Endpoint, p.Timeout = true, backend.URL, 100*time.Millisecond
		p.MaxConcurrency, p.Breaker.Failures, p.Breaker.OpenFor = 8, 5, 20*time.Millisecond
	})
	s.expected = "backend"
	var in sync.WaitGroup
	var refused atomic.Int64
	for range clients {
		in.Go(func() {
			for !t.Failed() {
				c := s.dial(nil)
				switch got, _ := c.Outcome(`"connect":{}`); got {
				case "ok":
					return
				case "error 100":
					refused.Add(1)
					time.Sleep(50 * time.Millisecond) // as SDKs, which wait for longer
				default:
					t.Error(got)
				}
			}
		})
	}
	other := s.connect("other") // has a token
	other.Subscribe("a", "")
	for _, state := range []int32{stuck, dead, stuck} {
		b.state.Store(state)
		for seen := refused.Load(); refused.Load() < seen+clients && !t.Failed(); {
			other.Do(`"publish":{"channel":"a","data":{}}`)
			if other.Pub() == nil {
				t.Fatal("no publication")
			}
			s.api("presence", `{"channel":"a"}`)
		}
	}
	b.state.Store(healthy)
	in.Wait()
	if most := b.most.Load(); most > 8+8 { // the latter are cut off by the timeout, and on their way out
		t.Errorf("%d calls at a time", most)
	}
	if b.asked.Load() > refused.Load()/2+2*clients {
		t.Errorf("asked %d times, %d refusals", b.asked.Load(), refused.Load())
	}
	s.wantMetric(0, "gyro_proxy_inflight_requests", "name=default", "protocol=http", "type=connect")
	s.wantMetric(clients+1, "gyro_node_num_clients")
}
