package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// TestEveryMethodIsHandled: a session does something about the command of each method of the schema, and takes the
// result of the effect that the command starts.
func TestEveryMethodIsHandled(t *testing.T) {
	for m := protocol.NoMethod + 1; m < protocol.NumMethods; m++ {
		var now int64
		p := newPlayer()
		conn := &fakeConn{room: -1}
		env := &fakeEnv{id: "c", now: &now, hub: hub.New(new(sendqueue.Arena)), pool: new(sendqueue.Pool)}
		env.do = func(e effect.Effect) bool {
			if who, ok := e.(*effect.Connecting); ok {
				who.Identity.Known = true
			}
			return true
		}
		env.explained = func(_, _ string, why error) {
			if strings.Contains(fmt.Sprint(why), "no method that clients may use") {
				t.Errorf("a session does not know the method %s", m)
			}
		}
		env.s.Init(env, &p.cfg, conn, connkind.New(&transport.Info{Framer: framers[protocol.JSON]}))
		connect, err := codec.ForClient(protocol.JSON).AppendCommand(nil, &protocol.Command{ID: 1, Connect: &protocol.ConnectRequest{}})
		if err != nil {
			t.Fatal(err)
		}
		env.s.Receive(connect)
		if m != protocol.MethodConnect {
			env.s.Receive([]byte(`{"id":3,"subscribe":{"channel":"ch"}}`))
			env.s.Receive(fmt.Appendf(nil, "{\"id\":2,%q:{\"channel\":\"ch\",\"token\":\"t\",\"data\":1}}\n", m.String()))
		}
		p.close()
	}
}
