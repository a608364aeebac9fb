package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
	"github.com/gyrohq/gyro/server/internal/testkit/schematest"
	"github.com/gyrohq/gyro/transport/front/fronttest"
)

// watched is an HTTP backend that counts its connections, and answers when it is told to.
type watched struct {
	pipes          *fronttest.Pipes
	asked, release chan struct{}

	mu   sync.Mutex
	open map[net.Conn]bool
	gone chan struct{} // one element per connection that was closed
}

func newWatched(t *testing.T) *watched {
	w := &watched{pipes: fronttest.NewPipes(), asked: make(chan struct{}, 16), release: make(chan struct{}, 16), open: make(map[net.Conn]bool), gone: make(chan struct{}, 16)}
	s := &http.Server{Handler: http.HandlerFunc(func(res http.ResponseWriter, r *http.Request) {
		w.asked <- struct{}{}
		<-w.release
		fmt.Fprint(res, `{}`)
	})}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch state {
		case http.StateNew:
			w.open[c] = true
		case http.StateClosed:
			delete(w.open, c)
			w.gone <- struct{}{}
		}
	}
	go func() { _ = s.Serve(w.pipes) }()
	t.Cleanup(func() { s.Close() })
	return w
}

func (w *watched) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

// calls returns a configuration in which the named proxies answer the calls of namespaces with their
// names.
func calls(proxies map[string]config.Proxy) *config.Config {
	cfg := config.DefaultConfig()
	for name, p := range proxies {
		cfg.Proxies = append(cfg.Proxies, config.NamedProxy{Name: name, Proxy: p})
		cfg.RPC.Namespaces = append(cfg.RPC.Namespaces, config.RPCNamespace{
			Name: name, RPCOptions: config.RPCOptions{ProxyEnabled: true, ProxyName: name},
		})
	}
	return cfg
}

// A configuration that is taken over while calls are under way: proxies that changed are used by the next
// calls, those that are gone lose their connections, and calls under way end as if nothing had happened.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stays, moves, goes, target := newWatched(t), newWatched(t), newWatched(t), newWatched(t)
		at := func(path string) config.Proxy {
			p := *settings("http://" + inMemory + path)
			p.Timeout = idleFor / 3 // connections are closed after two of them
			return p
		}
		log := slog.New(slog.DiscardHandler)
		before, err := NewSet(calls(map[string]config.Proxy{"stays": at(""), "moves": at(""), "goes": at("")}), nil, nil, nil, log)
		if err != nil {
			t.Fatal(err)
		}
		defer before.Close()
		call := func(s *Set, name string) error {
			return s.Of(RPC, name).Call(t.Context(), nil, new(message.RPCRequest), new(message.RPCResponse))
		}
		backends := map[string]*watched{"stays": stays, "moves": moves, "goes": goes}
		var underWay sync.WaitGroup
		for name, w := range backends {
			connectTo(t, before.Of(RPC, name), w.pipes.Dial)
		}
		for name, w := range backends { // two calls each: one connection is idle when the set is retired, one is not
			for range 2 {
				underWay.Go(func() {
					if err := call(before, name); err != nil {
						t.Errorf("%s: a call under way: %v", name, err)
					}
				})
			}
			<-w.asked
			<-w.asked
			w.release <- struct{}{}
		}
		after, err := NewSet(calls(map[string]config.Proxy{"stays": at(""), "moves": at("/target")}), before, nil, nil, log)
		if err != nil {
			t.Fatal(err)
		}
		defer after.Close()
		connectTo(t, after.Of(RPC, "moves"), target.pipes.Dial)
		before.Retire(after)
		for _, w := range backends {
			w.release <- struct{}{}
		}
		underWay.Wait()

		close(target.release)
		for range 3 {
			if err := call(after, "moves"); err != nil {
				t.Error(err)
			}
		}
		if len(target.asked) != 3 || len(moves.asked) != 0 {
			t.Errorf("the new backend was asked %d times, the old one %d times more", len(target.asked), len(moves.asked))
		}
		stays.release <- struct{}{}
		if err := call(after, "stays"); err != nil || stays.connections() > 2 {
			t.Errorf("%v, %d connections", err, stays.connections())
		}
		for _, w := range []*watched{moves, goes} {
			for range 2 {
				<-w.gone
			}
		}
		if after.Of(RPC, "goes") != nil || before.Of(RPC, "stays") != after.Of(RPC, "stays") || stays.connections() == 0 {
			t.Errorf("%v, %p %p, %d connections", after.Of(RPC, "goes"), before.Of(RPC, "stays"), after.Of(RPC, "stays"), stays.connections())
		}
	})
}

// closings tells of connections that have ended.
type closings chan struct{}

func (closings) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (closings) HandleRPC(context.Context, stats.RPCStats)                         {}
func (closings) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c closings) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		c <- struct{}{}
	}
}

// The same over gRPC: a call under way ends as if nothing had happened, then the connection is closed.
func TestRetireGRPC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, release, closed := make(chan struct{}), make(chan struct{}), make(closings, 1)
		backend := func(c *schematest.Call, _ schematest.Message) error {
			close(asked)
			<-release
			return c.Send("")
		}
		dial := pipeGRPC(t, backend, grpc.StatsHandler(closed))
		log := slog.New(slog.DiscardHandler)
		before, err := NewSet(calls(map[string]config.Proxy{"goes": *settings(inMemory)}), nil, nil, nil, log)
		if err != nil {
			t.Fatal(err)
		}
		defer before.Close()
		connectTo(t, before.Of(RPC, "goes"), dial)
		after, err := NewSet(calls(nil), before, nil, nil, log)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			done <- before.Of(RPC, "goes").Call(t.Context(), nil, new(message.RPCRequest), new(message.RPCResponse))
		}()
		<-asked
		before.Retire(after)
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-closed
	})
}
