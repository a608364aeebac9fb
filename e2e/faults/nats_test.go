package faults

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/internal/stand"
)

// TestNATS: a NATS server ends and starts again. Publications of the meantime are lost, since NATS
// delivers at most once; clients notice nothing but silence.
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
	hold(t, s, clients, fault{
		name: "restarted at once", always: true, mayRepeat: true,
		inject: func(t *testing.T) { quiet(t, func() { n.stop(); n.start(); s.Flow() }) },
	}, fault{
		name: "away until noticed", always: true, mayRepeat: true, failing: true, unfit: "nats",
		inject: func(t *testing.T) { quiet(t, func() { n.stop(); allUnfit(s); n.start(); s.Flow() }) },
	})
}

// natsServer is a NATS server in this process, which keeps its port when it restarts.
type natsServer struct {
	t    *testing.T
	port int
	s    *server.Server
}

func startNATS(t *testing.T) *natsServer {
	t.Helper()
	port, err := rig.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	n := &natsServer{t: t, port: port}
	t.Cleanup(n.stop)
	n.start()
	return n
}

func (n *natsServer) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)) }

func (n *natsServer) start() {
	n.t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: n.port, NoLog: true, NoSigs: true})
	if err != nil {
		n.t.Fatal(err)
	}
	n.s = s
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		n.t.Fatal("NATS does not start")
	}
}

func (n *natsServer) stop() {
	if n.s != nil {
		n.s.Shutdown()
		n.s.WaitForShutdown()
		n.s = nil
	}
}
