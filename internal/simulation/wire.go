package simulation

import (
	"maps"
	"slices"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// wire is the book of one connection, over the frames of both ends: each command has one answer of its kind or the
// connection ends, nothing comes before the answer to the connect command, and nothing of a channel comes unless the
// client is subscribed to it.
type wire struct {
	net     *network
	name    string
	client  codec.ClientCodec
	server  codec.Codec
	waiting map[uint32]sentCommand
	open    map[string]bool // channels
	numbers map[int64]string
	orders  map[string]bool // reasons of server API commands that were carried out
	// The connect command was accepted, or refused, or a disconnect push has come.
	connected, refused, ended bool
	asked                     bool // a connect command was sent
	pings                     int  // without an answer
	pinged                    time.Duration
	// broken is what the client has done that the server must not bear, at a time. Later commands do not count.
	broken   string
	brokenAt time.Duration
}

type sentCommand struct {
	method  protocol.Method
	channel string
	at      time.Duration
}

func newWire(n *network, name string, e protocol.Encoding) *wire {
	return &wire{
		net: n, name: name, client: codec.ForClient(e), server: codec.For(e),
		waiting: map[uint32]sentCommand{}, open: map[string]bool{}, numbers: map[int64]string{}, orders: map[string]bool{},
	}
}

// sent takes a frame of the client.
func (w *wire) sent(frame []byte) {
	for len(frame) > 0 && w.broken == "" {
		var cmd protocol.Command
		rest, err := w.server.DecodeCommand(frame, &cmd)
		if err != nil {
			w.breaks("sent garbage")
			return
		}
		frame = rest
		w.command(&cmd)
	}
}

func (w *wire) breaks(what string) { w.broken, w.brokenAt = what, w.net.now() }

func (w *wire) command(cmd *protocol.Command) {
	m := cmd.Method()
	connects := m == protocol.MethodConnect
	switch {
	case connects == w.asked:
		w.breaks("sent " + m.String() + " out of turn")
	case m == protocol.NoMethod && cmd.ID == 0:
		if w.pings--; w.pings < 0 {
			w.breaks("sent a pong without a ping")
		}
	case m == protocol.NoMethod:
		w.breaks("sent an empty command")
	case m != protocol.MethodSend:
		w.waiting[cmd.ID] = sentCommand{m, cmd.Channel(), w.net.now()}
	}
	w.asked = w.asked || connects
}

// came takes a frame of the node.
func (w *wire) came(frame []byte) {
	for len(frame) > 0 {
		var r protocol.Reply
		rest, err := w.client.DecodeReply(frame, &r)
		if err != nil {
			w.net.fail("%s: cannot decode what came: %v", w.name, err)
			return
		}
		frame = rest
		last := r.Push != nil && r.Push.Disconnect != nil
		if w.ended || w.refused && !last {
			w.net.fail("%s: more comes after the end: %+v", w.name, r)
		}
		switch {
		case r.ID != 0:
			w.answer(&r)
		case last:
			w.ended = true
		case !w.connected:
			w.net.fail("%s: comes before the answer to the connect command: %+v", w.name, r)
		case r.Push != nil:
			w.push(r.Push)
		default:
			w.pings++
			w.pinged = w.net.now()
		}
	}
}

func (w *wire) answer(r *protocol.Reply) {
	c, ok := w.waiting[r.ID]
	delete(w.waiting, r.ID)
	switch {
	case !ok:
		w.net.fail("%s: an answer to command %d, which has one or was never sent", w.name, r.ID)
	case !w.connected && c.method != protocol.MethodConnect:
		w.net.fail("%s: %v is answered before connect", w.name, c.method)
	case r.Error != nil:
		if r.Error.Code < 100 || r.Error.Message == "" {
			w.net.fail("%s: %v is answered by the error %d %q", w.name, c.method, r.Error.Code, r.Error.Message)
		}
		w.refused = w.refused || c.method == protocol.MethodConnect
		if c.method == protocol.MethodUnsubscribe {
			delete(w.open, c.channel) // the engine has failed, and the client is not subscribed any more
		}
	case r.Method() != c.method:
		w.net.fail("%s: %v is answered by a result of %v", w.name, c.method, r.Method())
	case r.Connect != nil:
		w.connected, w.pinged = true, w.net.now()
		for ch := range r.Connect.Subs {
			w.open[ch] = true
		}
	case r.Subscribe != nil && r.Subscribe.Phase != 0: // a page of a map; more follow
	case r.Subscribe != nil:
		if w.open[c.channel] {
			w.net.fail("%s: subscribed to %s twice", w.name, c.channel)
		}
		w.open[c.channel] = true
		w.numbers[r.Subscribe.ID] = c.channel
	case r.Unsubscribe != nil:
		delete(w.open, c.channel)
	}
}

func (w *wire) push(p *protocol.Push) {
	ch := p.Channel
	if p.ID != 0 {
		ch = w.numbers[p.ID]
	}
	switch {
	case p.Subscribe != nil:
		w.open[ch] = true
	case p.Unsubscribe != nil:
		delete(w.open, ch)
		w.ordered(p.Unsubscribe.Reason)
	case p.Pub != nil || p.Join != nil || p.Leave != nil:
		if !w.open[ch] {
			w.net.fail("%s: %+v comes without a subscription to %q", w.name, *p, ch)
		}
	}
}

// ordered checks that a command of the server API is done once.
func (w *wire) ordered(reason string) {
	if isOrder(reason) && w.orders[reason] {
		w.net.fail("%s: %s is done twice", w.name, reason)
	}
	w.orders[reason] = true
}

// overdue checks that nothing has waited for longer than most.
func (w *wire) overdue(most time.Duration) {
	now := w.net.now()
	switch {
	case w.refused || w.ended:
		return
	case w.broken != "":
		if now-w.brokenAt > most {
			w.net.fail("%s: is still open, although it %s at %v", w.name, w.broken, w.brokenAt)
		}
		return
	case w.connected && now-w.pinged > most:
		w.net.fail("%s: no ping since %v", w.name, w.pinged)
	}
	w.unanswered(most)
}

// unanswered checks that no command has waited for longer than most.
func (w *wire) unanswered(most time.Duration) {
	if w.refused || w.ended || w.broken != "" {
		return
	}
	now := w.net.now()
	for _, id := range slices.Sorted(maps.Keys(w.waiting)) {
		if c := w.waiting[id]; now-c.at > most {
			w.net.fail("%s: %v of %q, command %d of %v, has no answer", w.name, c.method, c.channel, id, c.at)
		}
	}
}
