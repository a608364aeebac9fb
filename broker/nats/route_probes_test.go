package nats

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// pair starts two servers of a cluster and returns what the route between them runs
// through.
func pair(t *testing.T) (one, two *server.Server, route *proxy) {
	t.Helper()
	cluster := server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: -1}
	one = startServer(t, &server.Options{ServerName: "one", Cluster: cluster, Username: "u", Password: "secret"})
	route = newProxy(t, one.ClusterAddr().String())
	two = startServer(t, &server.Options{
		ServerName: "two", Cluster: cluster, Username: "u", Password: "secret",
		Routes: server.RoutesFromStr("nats-route://" + route.Addr().String()),
	})
	wait.Until(t, "a route", func() bool { return one.NumRoutes() > 0 && two.NumRoutes() > 0 })
	return one, two, route
}

func with(s *server.Server) Config {
	return Config{URL: strings.Replace(s.ClientURL(), "://", "://u:secret@", 1)}
}

// Nodes on two servers are not healthy while the route between these is broken, even if
// each server serves its nodes well.
func TestBrokenRoute(t *testing.T) {
	t.Parallel()
	one, two, route := pair(t)
	got := newEvents()
	a, b := run(t, with(one), ignore{}), run(t, with(two), got)
	must(t, b.Subscribe(t.Context(), "ch"))
	wait.Until(t, "a publication by the route", func() bool { return publish(a, "ch", "1") == nil && len(got) > 0 })
	watched := func(b *Broker) bool {
		s := b.monitor.probes
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, w := range s.list {
			if w.seen.Load() > 0 {
				return true
			}
		}
		return false
	}
	wait.Until(t, "canaries by the route", func() bool { return watched(a) && watched(b) })
	for name, breakIt := range map[string]func(){"silent": route.freeze, "cut": func() { route.freeze(); route.cut() }} {
		if !healthy(a) || !healthy(b) {
			t.Fatalf("%s: %v, %v", name, a.Health(), b.Health())
		}
		breakIt()
		wait.Until(t, "unhealthy", func() bool { return !healthy(a) && !healthy(b) })
		err := a.Health()[0].Err.Error()
		if !strings.Contains(err, two.Addr().String()) || strings.Contains(err, "secret") {
			t.Errorf("%s: %s", name, err)
		}
		must(t, publish(a, "ch", "2")) // to whom it reaches
		route.thaw()
		wait.Until(t, "healthy", func() bool { return healthy(a) && healthy(b) })
	}
}

// A server that ends, or hangs, does not make the nodes of the others ill.
func TestServerOfOthersEnds(t *testing.T) {
	t.Parallel()
	one, two, _ := pair(t)
	a := run(t, with(one), ignore{})
	probes := func() (n int, seen uint64) {
		s := a.monitor.probes
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, w := range s.list {
			seen = max(seen, w.seen.Load())
		}
		return len(s.list), seen
	}
	wait.Until(t, "canaries by the route", func() bool { _, seen := probes(); return seen > 0 })
	if n, _ := probes(); n != 1 {
		t.Errorf("%d servers are watched", n)
	}
	sent := a.monitor.sent.Load()
	two.Shutdown()
	two.WaitForShutdown()
	wait.Until(t, "some canaries", func() bool {
		if !healthy(a) {
			t.Fatal(a.Health()[0].Err)
		}
		return a.monitor.sent.Load() > sent+missing+3
	})
	wait.Until(t, "the metric of a server that is away", func() bool {
		for _, m := range a.metrics() {
			if m.Name == "unreachable_servers" {
				return m.Value == 1
			}
		}
		return false
	})
}

// A node with a list of servers connects to one that is there, and to another one when that ends.
func TestListOfServers(t *testing.T) {
	t.Parallel()
	one, two, _ := pair(t)
	list := with(one)
	list.URL = "nats://127.0.0.1:1, " + list.URL + ", " + with(two).URL
	got := newEvents()
	a := run(t, list, got)
	must(t, a.Subscribe(t.Context(), "ch"))
	must(t, publish(a, "ch", "1"))
	got.next(t, "publication")
	first, other := one, two
	if a.conn.Load().ConnectedServerId() == two.ID() {
		first, other = two, one
	}
	first.Shutdown()
	first.WaitForShutdown()
	wait.Until(t, "the other server", func() bool { return healthy(a) && a.conn.Load().ConnectedServerId() == other.ID() })
	must(t, publish(a, "ch", "2"))
	got.next(t, "publication")
}

// A server of the cluster is watched at once, not with the next canary: from the connection on, or since it was announced. If its
// route breaks, it is not announced any more.
func TestServersAreWatchedAtOnce(t *testing.T) {
	t.Parallel()
	cluster := server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: -1}
	one := startServer(t, &server.Options{ServerName: "one", Cluster: cluster, Username: "u", Password: "secret"})
	begin := func(s *server.Server) *Broker {
		b := newBroker(t, with(s))
		b.monitor.period = time.Hour // no canary follows
		must(t, b.Run(ignore{}))
		t.Cleanup(func() { must(t, b.Close(context.Background())) })
		return b
	}
	watches := func(b *Broker, s *server.Server) bool {
		w := b.monitor.probes
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.list[s.Addr().String()] != nil
	}
	a := begin(one)
	two := startServer(t, &server.Options{
		ServerName: "two", Cluster: cluster, Username: "u", Password: "secret",
		Routes: server.RoutesFromStr("nats-route://" + one.ClusterAddr().String()),
	})
	wait.Until(t, "a server that was announced", func() bool { return watches(a, two) })
	b := begin(two)
	wait.Until(t, "a server that was there before", func() bool { return watches(b, one) })
}
