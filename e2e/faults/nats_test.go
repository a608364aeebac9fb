package faults

import (
	"testing"
	"time"

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

// natsServer is a NATS server of a test.
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
