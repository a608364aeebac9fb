package simulation

import (
	"strings"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/protocol"
)

// tricks are what an SDK with faults may do. The server answers with an error, or ends the connection.
var tricks = []func(m *model, ch string){
	(*model).subscribeTwice,
	(*model).speakFirst,
	func(m *model, ch string) { m.command(unsubscribing(ch + "-unknown")) },
	(*model).flood,
	(*model).breakOff,
	func(m *model, ch string) { m.command(&protocol.Command{Connect: &protocol.ConnectRequest{}}) },
	func(m *model, ch string) { m.raw([]byte(`{"id":`)) },
	func(m *model, ch string) { m.out = append(m.out, new(protocol.Command)); m.flush() }, // a pong without a ping
	func(m *model, ch string) { m.command(&protocol.Command{}) },
	func(m *model, ch string) { m.command(subscribing(strings.Repeat("long", 100))) },
	(*model).flap,
	func(m *model, ch string) { m.command(subscribing("")) },
	func(m *model, ch string) {
		m.command(&protocol.Command{SubRefresh: &protocol.SubRefreshRequest{Channel: ch, Token: "none"}})
	},
	func(m *model, ch string) { m.pong = false }, // no pongs from now on
}

func subscribing(ch string) *protocol.Command {
	return &protocol.Command{Subscribe: &protocol.SubscribeRequest{Channel: ch}}
}

func unsubscribing(ch string) *protocol.Command {
	return &protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: ch}}
}

// trickWith does one trick.
func (m *model) trickWith(n int, ch string) {
	if m.rude && !m.closed {
		m.r.log.add(m.name, "trick %d", n%len(tricks))
		tricks[n%len(tricks)](m, ch)
	}
}

// command sends a command, any answer to which is good.
func (m *model) command(cmd *protocol.Command) {
	m.call(cmd, func(err error) { m.r.log.add(m.name, "%v: %v", cmd.Method(), err) })
}

func (m *model) raw(frame []byte) {
	if m.e != nil {
		m.flush()
		_ = m.e.Write(frame)
	}
}

// subscribeTwice subscribes without a look at its subscriptions. A success means that it had none, so it begins anew.
func (m *model) subscribeTwice(ch string) {
	if m.state != client.Connected {
		return
	}
	m.send(subscribing(ch), func(r *protocol.Reply, err error) {
		if r != nil && err == nil {
			m.lost(client.Reason{Code: 1, Text: "confused"})
		}
	})
}

// speakFirst sends a command before the next connect command.
func (m *model) speakFirst(ch string) {
	m.trick = func(m *model) {
		m.send(m.request(protocol.MethodHistory, ch), func(*protocol.Reply, error) {})
		m.flush()
	}
}

// flood sends more commands in one frame than a client may have in progress.
func (m *model) flood(ch string) {
	for i := range 100 {
		switch {
		case i%10 == 9:
			m.publish(ch)
		default:
			m.ask([]protocol.Method{protocol.MethodRPC, protocol.MethodSend, protocol.MethodHistory, protocol.MethodPresenceStats}[i%4], ch)
		}
	}
	m.flush()
}

// breakOff ends the connection behind its last commands.
func (m *model) breakOff(ch string) {
	if m.state != client.Connected {
		return
	}
	m.publish(ch)
	m.ask(protocol.MethodRPC, ch)
	m.command(subscribing(ch))
	m.flush()
	m.lost(client.Reason{Code: 1, Text: "broken off"})
}

// flap subscribes and unsubscribes without a wait.
func (m *model) flap(ch string) {
	for range 3 {
		m.subscribe(ch)
		m.unsubscribe(ch)
	}
	m.subscribe(ch)
	m.flush()
}
