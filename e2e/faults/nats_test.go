package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/internal/stand"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestNATS: a NATS server ends and starts again. Publications of the meantime are lost (at most once); clients notice
// nothing but silence.
func TestNATS(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	s := stand.New(t, stand.Options{
		Nodes: nodes, Config: configured(`"broker": {"enabled": true, "type": "nats", "nats": {"url": "nats://`+n.addr()+`"}}`, plain),
		Subscribers: subscribers, SDKs: sdks, Channels: 10, Every: 50 * time.Millisecond, AnswerLimit: answerLimit,
		Namespace: "plain", AtMostOnce: true,
	})
	quiet := func(t *testing.T, inject func()) {
		inject()
		if span := s.Peek(); span.Reconnects+span.Insufficient+span.Told > 0 {
			t.Errorf("clients were bothered: %+v", span)
		}
	}
	expose(t, s, clients, fault{
		name: "restarted at once", always: true, mayRepeat: true,
		inject: func(t *testing.T) { quiet(t, func() { n.stop(); n.start(); s.Flow() }) },
	}, fault{
		name: "away until noticed", always: true, mayRepeat: true, failing: true, unfit: "nats",
		inject: func(t *testing.T) { quiet(t, func() { n.stop(); allUnfit(s); n.start(); s.Flow() }) },
	})
}

// TestNATSRoute: the route between two NATS servers is cut, by broken connections and by silence. The nodes on both
// sides are not ready within 5 s and say why, and are again when it works.
func TestNATSRoute(t *testing.T) {
	t.Parallel()
	servers, route, err := rig.StartNATSPair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		route.Close()
		servers[0].Stop()
		servers[1].Stop()
	})
	var nodes [2]*rig.Server
	for i, s := range servers {
		nodes[i] = launch(t, configured(`"broker": {"enabled": true, "type": "nats", "nats": {"url": "nats://`+s.Addr()+`"}}`, plain))
	}
	know := func(n int) {
		t.Helper()
		for _, node := range nodes {
			wait.Until(t, fmt.Sprintf("a node that knows %d", n), func() bool {
				var info struct {
					Nodes []struct{} `json:"nodes"`
				}
				return node.API(t.Context(), "info", map[string]any{}, &info) == nil && len(info.Nodes) == n
			})
		}
	}
	know(2)
	for name, test := range map[string]struct{ begin, end func() }{
		"connections broken": {route.Down, route.Up},
		"silent":             {route.Freeze, func() { route.Cut(); route.Resume() }},
	} {
		for _, node := range nodes {
			wait.Until(t, "a node that is ready", func() bool { return healthy(node.Addr) })
		}
		test.begin()
		began := time.Now()
		for i, node := range nodes {
			wait.Until(t, name+": a node that is not ready", func() bool { return !healthy(node.Addr) })
			t.Logf("%s: node %d is not ready after %v", name, i, time.Since(began).Round(100*time.Millisecond))
		}
		test.end()
	}
	know(2)
}

type natsServer struct {
	t *testing.T
	n *rig.NATS
}

func startNATS(t *testing.T) *natsServer {
	t.Helper()
	n, err := rig.StartNATS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return &natsServer{t, n}
}

func (n *natsServer) addr() string { return n.n.Addr() }
func (n *natsServer) stop()        { n.n.Stop() }

func (n *natsServer) start() {
	n.t.Helper()
	if err := n.n.Start(); err != nil {
		n.t.Fatal(err)
	}
}
