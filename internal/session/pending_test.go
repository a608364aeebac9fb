package session_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// pipeline sends n commands in one frame to a session that has two in progress at a
// time, or dispatches two in its turn, and returns the bytes that were allocated per
// command.
func pipeline(t *testing.T, n, share int) uint64 {
	t.Helper()
	var (
		now    int64
		todo   []effect.Effect
		client = codec.ForClient(protocol.Protobuf)
		conn   = &fakeConn{room: -1}
		env    = &fakeEnv{id: "c", now: &now, hub: hub.New(new(sendqueue.Arena)), pool: new(sendqueue.Pool), share: share}
	)
	env.left = share
	env.do = func(e effect.Effect) bool {
		if who, ok := e.(*effect.Connecting); ok {
			who.Identity.Known = true
			return true
		}
		if _, ok := e.(*effect.RPC); ok && share == 0 {
			todo = append(todo, e)
			return false
		}
		return true
	}
	cfg := &session.Config{
		PresenceInterval: time.Second, Rounds: new(hub.Rounds), ChannelLimit: 1, QueueMaxSize: 1 << 30,
		CommandLimit: 2, PendingMaxSize: 1 << 30, Handles: session.Handles{RPC: true},
	}
	env.s.Init(env, cfg, conn, connkind.New(&transport.Info{Framer: framers[protocol.Protobuf]}))
	encode := func(frame []byte, cmd *protocol.Command) []byte {
		frame, err := client.AppendCommand(frame, cmd)
		if err != nil {
			t.Fatal(err)
		}
		return frame
	}
	env.s.Receive(encode(nil, &protocol.Command{ID: 1, Connect: &protocol.ConnectRequest{}}))
	var frame []byte
	for range n {
		frame = encode(frame, &protocol.Command{ID: 2, RPC: &protocol.RPCRequest{}})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for env.s.Receive(frame); env.again || len(todo) > 0; {
		if env.again {
			env.again, env.left = false, share
			env.s.Resume()
			continue
		}
		e := todo[0]
		todo = todo[1:]
		env.s.Complete(e)
	}
	runtime.ReadMemStats(&after)
	env.s.Flush()
	if got := len(conn.replies(protocol.Protobuf)); got != n+1 {
		t.Fatalf("%d replies to %d commands", got, n+1)
	}
	return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
}

// What commands that wait cost does not depend on how many wait behind them.
func TestWaitingCommandsAreCopiedOnce(t *testing.T) {
	for name, share := range map[string]int{"in progress": 0, "in turn": 2} {
		few, many := pipeline(t, 500, share), pipeline(t, 16000, share)
		if many > 2*few {
			t.Errorf("%s: %d bytes for each of 500 commands, %d for each of 16000", name, few, many)
		}
	}
}
