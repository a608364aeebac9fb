package observation

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"

	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// traffic is what clients and node said to each other: by the books of the observer (counts),
// or by the bytes that transports carried (ledger).
type traffic struct {
	Sent, Received map[message]observe.Traffic
	Recoveries     map[observe.Recovery]int
}

// message of a type, on a kind of connection.
type message struct {
	Transport string
	Encoding  protocol.Encoding
	Type      string
}

func newTraffic() traffic {
	return traffic{map[message]observe.Traffic{}, map[message]observe.Traffic{}, map[observe.Recovery]int{}}
}

func carried(m map[message]observe.Traffic, key message, t observe.Traffic) {
	if t != (observe.Traffic{}) {
		m[key] = observe.Traffic{Messages: m[key].Messages + t.Messages, Bytes: m[key].Bytes + t.Bytes}
	}
}

// counts adds up what an observer is told.
type counts struct {
	mu sync.Mutex
	traffic
	Connected, Disconnected  map[string]int // by transport and agent
	Subscribed, Unsubscribed map[string]int // by agent
	Filtered                 int
	Pongs                    []observe.Pong
	Lags, Broadcasts, Writes []observe.Timing
}

func newCounts() *counts {
	return &counts{
		traffic: newTraffic(), Connected: map[string]int{}, Disconnected: map[string]int{},
		Subscribed: map[string]int{}, Unsubscribed: map[string]int{},
	}
}

func (c *counts) turn(t *observe.Turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range t.Transports {
		k := &t.Transports[i]
		for m := range observe.NumMessages {
			key := message{k.Name, k.Encoding, m.String()}
			carried(c.Sent, key, k.Sent[m])
			carried(c.Received, key, k.Received[m])
		}
	}
	for _, e := range t.Connections {
		label := e.Transport + " " + e.Agent.Name(nil) + " " + e.Agent.Version()
		c.Connected[label] += e.Connected
		c.Disconnected[label] += e.Disconnected
	}
	for _, e := range t.Subscriptions {
		label := e.Agent.Name(nil) + " " + e.Agent.Version()
		c.Subscribed[label] += e.Subscribed
		c.Unsubscribed[label] += e.Unsubscribed
	}
	for _, r := range t.Recoveries {
		c.Recoveries[r]++
	}
	for _, f := range t.Filtered {
		c.Filtered += f.Count
	}
	c.Pongs = append(c.Pongs, t.Pongs...)
	c.Lags = append(c.Lags, t.Lags...)
	c.Broadcasts = append(c.Broadcasts, t.Broadcasts...)
	c.Writes = append(c.Writes, t.Writes...)
}

// ledger has connections go through it to an acceptor, and decodes what they carry.
type ledger struct {
	transport.Acceptor
	mu sync.Mutex
	traffic
}

func newLedger(a transport.Acceptor) *ledger { return &ledger{Acceptor: a, traffic: newTraffic()} }

func (l *ledger) Accept(ctx context.Context, conn transport.Conn, info transport.Info) (transport.Peer, error) {
	t := &tap{Conn: conn, ledger: l, info: info, methods: map[uint32]string{}}
	if info.Connect != nil {
		carried(l.Received, t.key("connect"), observe.Traffic{Messages: 1}) // the size is not known
	}
	peer, err := l.Acceptor.Accept(ctx, t, info)
	return &tapped{peer, t}, err
}

// tap is one connection.
type tap struct {
	transport.Conn
	ledger  *ledger
	info    transport.Info
	methods map[uint32]string // of commands, by ID
	buf     []byte            // of messages that are not complete
}

type tapped struct {
	transport.Peer
	tap *tap
}

func (t *tap) key(what string) message { return message{t.info.Name, t.info.Framer.Encoding(), what} }

func (t *tap) Write(frames [][]byte) (int, error) {
	n, err := t.Conn.Write(frames)
	t.sent(bytes.Join(frames, nil)[:n])
	return n, err
}

func (t *tap) Close(d protocol.Disconnect, frames [][]byte) {
	t.sent(bytes.Join(frames, nil))
	t.Conn.Close(d, frames)
}

func (p *tapped) Receive(msg []byte) {
	p.tap.received(msg)
	p.Peer.Receive(msg)
}

// next takes the first message of data. size is what is left without a line break.
func next(e protocol.Encoding, data []byte) (msg, rest []byte, size int) {
	if e == protocol.JSON {
		line, rest, found := bytes.Cut(data, []byte{'\n'})
		if !found {
			return nil, data, 0
		}
		return line, rest, len(line)
	}
	n, head := binary.Uvarint(data)
	if head <= 0 || len(data) < head+int(n) {
		return nil, data, 0
	}
	size = head + int(n)
	return data[:size], data[size:], size
}

func (t *tap) sent(data []byte) {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	t.buf = append(t.buf, data...)
	for {
		msg, rest, size := next(t.info.Framer.Encoding(), t.buf)
		if msg == nil {
			return
		}
		carried(t.ledger.Sent, t.key(t.read(msg)), observe.Traffic{Messages: 1, Bytes: size})
		t.buf = bytes.Clone(rest)
	}
}

// read returns the type of a message of the node.
func (t *tap) read(msg []byte) string {
	var r protocol.Reply
	c := codec.ForClient(t.info.Framer.Encoding())
	var err error
	if t.info.Mode == transport.OneWay {
		r.Push = new(protocol.Push)
		_, err = c.DecodePush(msg, r.Push)
	} else {
		_, err = c.DecodeReply(msg, &r)
	}
	switch p := r.Push; {
	case err != nil:
		panic(err)
	case r.ID != 0:
		if s := r.Subscribe; s != nil && s.WasRecovering {
			t.ledger.Recoveries[observe.Recovery{Recovered: s.Recovered, Publications: len(s.Publications)}]++
		}
		return t.methods[r.ID]
	case p == nil || *p == (protocol.Push{}):
		return "server_ping"
	case p.Pub != nil:
		return "push_publication"
	case p.Join != nil:
		return "push_join"
	case p.Leave != nil:
		return "push_leave"
	case p.Subscribe != nil:
		return "push_subscribe"
	case p.Unsubscribe != nil:
		return "push_unsubscribe"
	case p.Message != nil:
		return "push_message"
	case p.Refresh != nil:
		return "push_refresh"
	case p.Connect != nil:
		return "push_connect"
	case p.Disconnect != nil:
		return "push_disconnect"
	}
	return "?"
}

func (t *tap) received(data []byte) {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	e := t.info.Framer.Encoding()
	if e == protocol.JSON {
		data = append(bytes.Clone(bytes.TrimSuffix(data, []byte{'\n'})), '\n')
	}
	for len(data) > 0 {
		msg, rest, size := next(e, data)
		what := "unknown"
		var cmd protocol.Command
		_, err := codec.For(e).DecodeCommand(msg, &cmd)
		switch {
		case t.info.Mode == transport.OneWay:
			what = "connect"
		case err == nil:
			what = command(&cmd)
		default: // all that follows is lost
			rest, size = nil, len(bytes.TrimSuffix(data, []byte{'\n'}))
		}
		t.methods[cmd.ID] = what
		carried(t.ledger.Received, t.key(what), observe.Traffic{Messages: 1, Bytes: size})
		data = rest
	}
}

func command(c *protocol.Command) string {
	for name, has := range map[string]bool{
		"connect": c.Connect != nil, "subscribe": c.Subscribe != nil, "unsubscribe": c.Unsubscribe != nil,
		"publish": c.Publish != nil, "presence": c.Presence != nil, "presence_stats": c.PresenceStats != nil,
		"history": c.History != nil, "rpc": c.RPC != nil, "send": c.Send != nil, "refresh": c.Refresh != nil,
		"sub_refresh": c.SubRefresh != nil, "client_pong": *c == protocol.Command{},
	} {
		if has {
			return name
		}
	}
	return "unknown"
}
