package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/internal/fossil"
	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

const (
	commandTimeout = 3 * time.Second // of models, as of Go clients
	pingSlack      = 2 * time.Second
)

var (
	errTimedOut = &protocol.Error{Code: 1, Message: "timeout"}
	errOffline  = &protocol.Error{Code: 3, Message: "client disconnected"}
	errEnded    = &protocol.Error{Code: 11, Message: "connection closed"}
)

// model behaves as the public SDKs of the protocol do. It drops nothing that a server must not send, so a fault of the
// server reaches the book. All of it is on the scheduler: it has no goroutines.
type model struct {
	told
	encoding protocol.Encoding
	codec    codec.ClientCodec
	chance   *rand.Rand
	rude     bool
	// As SDKs differ: subscribe commands follow the connect command in one frame, commands of some milliseconds share a
	// frame, a subscribe waits for the answer to the unsubscribe before it, channels come as numbers.
	early, patient, compact bool
	batch                   time.Duration

	state   client.State
	life    int // of attempts: what belongs to an earlier one is dropped
	e       *endpoint
	id      uint32
	waiting map[uint32]*pendingCommand
	out     []*protocol.Command
	subs    map[string]*modelSub
	numbers map[int64]string
	tries   int
	since   time.Duration // connected
	heardAt time.Duration
	ping    time.Duration
	pong    bool
	trick   func(m *model) // before the next connect command
}

type pendingCommand struct {
	cmd  *protocol.Command
	done func(*protocol.Reply, error)
}

// modelSub is a subscription of a model to a channel, or of the server.
type modelSub struct {
	ch       string
	server   bool
	wanted   bool
	active   bool
	asking   int // the attempt whose answer counts, 0: none
	attempts int
	leaving  bool // an unsubscribe command has no answer
	tries    int
	since    time.Duration
	recover  bool
	at       client.StreamPosition
	wants    bool // deltas
	delta    bool
	base     []byte
	number   int64
}

func (r *run) newModel(i int, rude bool) *model {
	m := &model{told: told{r: r, name: fmt.Sprintf("u%d", i)}, encoding: protocol.Encoding(i % 2), rude: rude, subs: map[string]*modelSub{}, waiting: map[uint32]*pendingCommand{}}
	m.codec = codec.ForClient(m.encoding)
	m.chance = stream(r.plan.Seed, "model "+m.name)
	m.early, m.patient, m.compact = m.chance.IntN(2) == 0, !rude || m.chance.IntN(2) == 0, m.chance.IntN(3) > 0
	if m.chance.IntN(2) == 0 {
		m.batch = time.Duration(m.chance.IntN(20)) * time.Millisecond
	}
	m.state = client.Disconnected
	return m
}

func (m *model) sub(ch string) *modelSub {
	s := m.subs[ch]
	if s == nil {
		s = &modelSub{ch: ch, wants: hash(m.name+ch)%3 == 0}
		m.subs[ch] = s
	}
	return s
}

// all returns the subscriptions in the order of their channels.
func (m *model) all() []*modelSub {
	list := make([]*modelSub, 0, len(m.subs))
	for _, ch := range slices.Sorted(maps.Keys(m.subs)) {
		list = append(list, m.subs[ch])
	}
	return list
}

// later does something after a while, unless the connection or the attempt has ended then.
func (m *model) later(d time.Duration, do func()) {
	life := m.life
	m.r.after(d, m.name+" timer", func() {
		if m.life == life && !m.closed {
			do()
		}
	})
}

func (m *model) backoff(tries int) time.Duration {
	most := min(2*time.Second, 200*time.Millisecond<<min(tries, 10))
	return 200*time.Millisecond + time.Duration(m.chance.Int64N(int64(most)))
}

func (m *model) connect() {
	if m.state != client.Disconnected || m.closed {
		return
	}
	m.state, m.tries = client.Connecting, 0
	m.heard(client.ConnectingEvent{Reason: client.Reason{Text: "connect called"}})
	m.dial()
}

func (m *model) dial() {
	m.life++
	life := m.life
	m.later(commandTimeout, func() {
		if m.state == client.Connecting {
			m.again(errTimedOut)
		}
	})
	m.r.net.open(m.name, m.r.anyMachine(m.name), m.encoding, func(e *endpoint, err error) {
		switch {
		case m.life != life || m.closed:
			if e != nil {
				e.Cut()
			}
		case err != nil:
			m.again(err)
		default:
			m.opened(e)
		}
	})
}

// again makes the next attempt to connect, after a while.
func (m *model) again(err error) {
	m.drop()
	m.r.log.add(m.name, "attempt failed: %v", err)
	m.tries++
	m.later(m.backoff(m.tries-1), m.dial)
}

// drop gives the connection up.
func (m *model) drop() {
	m.life++
	if m.e != nil {
		m.e.Cut()
		m.e = nil
	}
	m.out = nil
	m.numbers = map[int64]string{}
	for _, id := range slices.Sorted(maps.Keys(m.waiting)) {
		w := m.waiting[id]
		delete(m.waiting, id)
		w.done(nil, errEnded)
	}
	for _, s := range m.subs {
		s.asking, s.leaving, s.tries = 0, false, 0
	}
}

func (m *model) opened(e *endpoint) {
	m.e = e
	life := m.life
	e.mu.Lock()
	e.hear = func(message []byte, err error) {
		switch {
		case m.life != life || m.closed:
		case err != nil:
			m.broken(err)
		default:
			m.frame(message)
		}
	}
	e.mu.Unlock()
	if t := m.trick; t != nil {
		m.trick = nil
		t(m)
	}
	req := &protocol.ConnectRequest{Token: m.name, Name: "model"}
	for _, s := range m.all() {
		if s.server && s.recover {
			if req.Subs == nil {
				req.Subs = map[string]*protocol.SubscribeRequest{}
			}
			req.Subs[s.ch] = &protocol.SubscribeRequest{Recover: true, Epoch: s.at.Epoch, Offset: s.at.Offset}
		}
	}
	m.send(&protocol.Command{Connect: req}, m.answered)
	if m.early {
		m.subscribeAll()
	}
	m.flush()
}

// answered is the answer to the connect command.
func (m *model) answered(r *protocol.Reply, err error) {
	if r == nil {
		return // the attempt has ended
	}
	var e *protocol.Error
	if errors.As(err, &e) {
		if e.Code == 109 || e.Temporary {
			m.again(err)
		} else {
			m.end(client.Reason{Code: e.Code, Text: e.Message})
		}
		return
	}
	c := r.Connect
	m.state, m.since = client.Connected, m.r.now()
	m.ping, m.pong = time.Duration(c.Ping)*time.Second, c.Pong
	m.heard(client.ConnectedEvent{Client: c.Client})
	m.listen()
	if c.Expires {
		m.refreshAfter(time.Duration(c.TTL) * time.Second)
	}
	for _, s := range m.all() {
		if s.server && c.Subs[s.ch] == nil {
			m.heard(client.UnsubscribedEvent{Channel: s.ch, Reason: client.Reason{Text: "not in subs"}})
			delete(m.subs, s.ch)
		}
	}
	for _, ch := range slices.Sorted(maps.Keys(c.Subs)) {
		s := m.sub(ch)
		s.server = true
		m.begin(s, c.Subs[ch])
	}
	if !m.early {
		m.subscribeAll()
	}
}

// listen ends the connection if nothing comes for too long.
func (m *model) listen() {
	if m.ping == 0 {
		return
	}
	if silent := m.r.now() - m.heardAt; silent >= m.ping+pingSlack {
		m.lost(client.Reason{Code: 2, Text: "no ping"})
	} else {
		m.later(m.ping+pingSlack-silent, m.listen)
	}
}

func (m *model) refreshAfter(d time.Duration) {
	m.later(d, func() {
		m.send(&protocol.Command{Refresh: &protocol.RefreshRequest{Token: m.name}}, func(r *protocol.Reply, err error) {
			var e *protocol.Error
			switch {
			case errors.Is(err, errEnded):
			case errors.As(err, &e) && e.Code >= 100 && !e.Temporary:
				m.end(client.Reason{Code: e.Code, Text: e.Message})
			case err != nil:
				m.refreshAfter(time.Second)
			case r.Refresh.Expires:
				m.refreshAfter(time.Duration(r.Refresh.TTL) * time.Second)
			}
		})
	})
}

// broken is the end of the connection by the network or the node.
func (m *model) broken(err error) {
	reason := client.Reason{Code: 1, Text: "transport closed"}
	var closed *wsclient.CloseError
	if errors.As(err, &closed) {
		reason = client.Reason{Code: closed.Code, Text: closed.Reason}
		if (protocol.Disconnect{Code: closed.Code}).Terminal() {
			m.end(reason)
			return
		}
	}
	m.lost(reason)
}

// lost tries to connect again.
func (m *model) lost(reason client.Reason) {
	if m.state == client.Connecting {
		m.again(reason)
		return
	}
	if m.r.now()-m.since >= 5*time.Second {
		m.tries = 0
	}
	m.state = client.Connecting
	m.heard(client.ConnectingEvent{Reason: reason})
	m.unlive(client.Reason{Code: 1, Text: "transport closed"})
	m.again(reason)
}

// end is for good.
func (m *model) end(reason client.Reason) {
	if m.state == client.Disconnected {
		return
	}
	m.state = client.Disconnected
	m.heard(client.DisconnectedEvent{Reason: reason})
	m.unlive(client.Reason{Code: 1, Text: "transport closed"})
	m.drop()
}

func (m *model) disconnect() { m.end(client.Reason{Text: "disconnect called"}) }

func (m *model) close() {
	m.disconnect()
	m.closed = true
}

// unlive tells of subscriptions that wait for the next connection.
func (m *model) unlive(reason client.Reason) {
	for _, s := range m.all() {
		if s.active {
			s.active = false
			m.heard(client.SubscribingEvent{Channel: s.ch, Reason: reason})
		}
	}
}

// send queues a command, for a frame with others.
func (m *model) send(cmd *protocol.Command, done func(*protocol.Reply, error)) {
	if m.e == nil {
		done(nil, errOffline)
		return
	}
	if cmd.Send == nil {
		m.id++
		cmd.ID = m.id
		m.waiting[cmd.ID] = &pendingCommand{cmd, done}
		m.later(commandTimeout, func() { m.late(cmd.ID) })
	}
	m.out = append(m.out, cmd)
	if len(m.out) == 1 {
		m.later(m.batch, m.flush)
	}
}

// late is for a command without an answer in time.
func (m *model) late(id uint32) {
	w := m.waiting[id]
	if w == nil {
		return
	}
	switch {
	case w.cmd.Subscribe != nil:
		m.lost(client.Reason{Code: 3, Text: "subscribe timeout"})
	case w.cmd.Unsubscribe != nil:
		m.lost(client.Reason{Code: 4, Text: "unsubscribe error"})
	default:
		w.done(nil, errTimedOut)
		w.done = func(*protocol.Reply, error) {} // it is late, but the book wants to see it
	}
}

// flush sends the commands in one frame.
func (m *model) flush() {
	if m.e == nil || len(m.out) == 0 {
		return
	}
	var frame []byte
	for i, cmd := range m.out {
		if i > 0 && m.encoding == protocol.JSON {
			frame = append(frame, '\n')
		}
		frame, _ = m.codec.AppendCommand(frame, cmd)
	}
	m.out = nil
	_ = m.e.Write(frame)
}

// frame is what comes from the node.
func (m *model) frame(data []byte) {
	m.heardAt = m.r.now()
	life := m.life
	for len(data) > 0 && m.life == life {
		var r protocol.Reply
		rest, err := m.codec.DecodeReply(data, &r)
		if err != nil {
			m.r.fail("%s: cannot decode what came: %v", m.name, err)
			m.end(client.Reason{Code: 2, Text: "bad protocol"})
			return
		}
		data = rest
		m.message(&r)
	}
}

// channel is the channel of a push.
func (m *model) channel(p *protocol.Push) string {
	switch {
	case p == nil:
		return ""
	case p.ID != 0:
		return m.numbers[p.ID]
	}
	return p.Channel
}

func (m *model) message(r *protocol.Reply) {
	switch {
	case r.ID != 0:
		w := m.waiting[r.ID]
		delete(m.waiting, r.ID)
		switch {
		case w == nil:
		case r.Error != nil:
			w.done(r, r.Error)
		default:
			w.done(r, nil)
		}
	case r.Push != nil:
		m.push(m.channel(r.Push), r.Push)
	case m.pong:
		m.answerPing()
	}
}

func (m *model) answerPing() {
	m.out = slices.Insert(m.out, 0, new(protocol.Command))
	m.flush()
}

func (m *model) push(ch string, p *protocol.Push) {
	s := m.subs[ch]
	switch {
	case p.Disconnect != nil:
		m.broken(&wsclient.CloseError{Code: p.Disconnect.Code, Reason: p.Disconnect.Reason})
	case p.Subscribe != nil:
		s = m.sub(ch)
		if s.active {
			m.heard(client.SubscribingEvent{Channel: ch, Reason: client.Reason{Text: "the server subscribes"}})
		}
		s.server, s.active = true, false
		m.begin(s, &protocol.SubscribeResult{Recoverable: p.Subscribe.Recoverable, Positioned: p.Subscribe.Positioned, Epoch: p.Subscribe.Epoch, Offset: p.Subscribe.Offset})
	case s == nil:
	case p.Unsubscribe != nil:
		m.ousted(s, client.Reason{Code: p.Unsubscribe.Code, Text: p.Unsubscribe.Reason})
	case !s.active:
	case p.Pub != nil:
		m.publication(s, p.Pub)
	case p.Join != nil:
		m.heard(client.JoinEvent{Channel: ch, Info: *p.Join.Info})
	case p.Leave != nil:
		m.heard(client.LeaveEvent{Channel: ch, Info: *p.Leave.Info})
	}
}

// ousted is for a subscription that the server has ended.
func (m *model) ousted(s *modelSub, reason client.Reason) {
	again := reason.Code >= 2500
	delete(m.numbers, s.number)
	switch {
	case s.server:
		delete(m.subs, s.ch)
		m.heard(client.UnsubscribedEvent{Channel: s.ch, Reason: reason})
	case s.active && again:
		s.active = false
		if m.r.now()-s.since >= 5*time.Second {
			s.tries = 0
		}
		m.heard(client.SubscribingEvent{Channel: s.ch, Reason: reason})
		m.retry(s)
	case s.active:
		s.active, s.wanted = false, false
		m.heard(client.UnsubscribedEvent{Channel: s.ch, Reason: reason})
	case s.asking != 0: // it may be older than the command, and ends what the command may have begun
		m.unwanted(s, again, reason)
		m.leave(s)
	default:
		m.unwanted(s, again, reason)
	}
}

// unwanted ends a subscription that has not begun, unless its end has a code with which clients come back.
func (m *model) unwanted(s *modelSub, again bool, reason client.Reason) {
	if s.wanted && !again {
		s.wanted = false
		m.heard(client.UnsubscribedEvent{Channel: s.ch, Reason: reason})
	}
}

// retry subscribes again after a while: at once for the first time.
func (m *model) retry(s *modelSub) {
	tries := s.tries
	s.tries++
	if tries == 0 {
		m.seek(s)
		return
	}
	m.later(m.backoff(tries-1), func() { m.seek(s) })
}

func (m *model) subscribeAll() {
	for _, s := range m.all() {
		if !s.server {
			m.seek(s)
		}
	}
}

// seek sends the subscribe command if one is due.
func (m *model) seek(s *modelSub) {
	if !s.wanted || s.active || s.server || s.asking != 0 || s.leaving && m.patient || m.e == nil || m.state != client.Connected && !m.early {
		return
	}
	s.attempts++
	s.asking = s.attempts
	attempt := s.attempts
	req := &protocol.SubscribeRequest{Channel: s.ch}
	if s.recover {
		req.Recover, req.Offset, req.Epoch = true, s.at.Offset, s.at.Epoch
	}
	if s.wants {
		req.Delta = "fossil"
	}
	if m.compact {
		req.Flag = 1
	}
	m.send(&protocol.Command{Subscribe: req}, func(r *protocol.Reply, err error) {
		if s.asking != attempt {
			return
		}
		s.asking = 0
		var e *protocol.Error
		switch {
		case r == nil:
		case errors.As(err, &e) && (e.Temporary || e.Code == 109):
			m.heard(client.ErrorEvent{Channel: s.ch, Code: e.Code})
			s.tries = max(s.tries, 1)
			m.retry(s)
		case e != nil:
			s.wanted = false
			m.heard(client.UnsubscribedEvent{Channel: s.ch, Reason: client.Reason{Code: e.Code, Text: e.Message}})
		default:
			m.begin(s, r.Subscribe)
		}
	})
}

// begin is the begin of a subscription.
func (m *model) begin(s *modelSub, r *protocol.SubscribeResult) {
	at := client.StreamPosition{Offset: r.Offset, Epoch: r.Epoch}
	s.active, s.since = true, m.r.now()
	if !r.Recovered {
		s.base = nil
	}
	s.delta, s.number = r.Delta, r.ID
	if r.ID != 0 {
		m.numbers[r.ID] = s.ch
	}
	m.heard(client.SubscribedEvent{Channel: s.ch, Positioned: r.Positioned, Recoverable: r.Recoverable, WasRecovering: r.WasRecovering, Recovered: r.Recovered, Position: at})
	if r.Recoverable {
		s.recover, s.at = true, at
	}
	for _, p := range r.Publications {
		m.publication(s, p)
	}
}

func (m *model) publication(s *modelSub, p *protocol.Publication) {
	data, err := m.data(s, p)
	if err != nil {
		m.r.fail("%s: publication %d of %s: %v", m.name, p.Offset, s.ch, err)
		m.lost(client.Reason{Code: 13, Text: "bad delta"})
		return
	}
	if p.Offset > 0 {
		s.at.Offset = p.Offset
		if p.Epoch != "" {
			s.at.Epoch = p.Epoch
		}
	}
	m.heard(client.PublicationEvent{Publication: client.Publication{Channel: s.ch, Data: data, Offset: p.Offset}})
}

// data is the payload of a publication, which may come as a delta.
func (m *model) data(s *modelSub, p *protocol.Publication) ([]byte, error) {
	data := p.Data
	if !s.delta {
		return data, nil
	}
	if m.encoding == protocol.JSON {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return nil, err
		}
		data = []byte(text)
	}
	if p.Delta {
		target, err := fossil.Apply(s.base, data)
		if err != nil {
			return nil, err
		}
		data = target
	}
	s.base = data
	return data, nil
}

func (m *model) subscribe(ch string) {
	s := m.sub(ch)
	if s.server || s.wanted || m.closed || kindOf(ch).changes != nil { // other SDKs have no maps
		return
	}
	s.wanted, s.tries = true, 0
	m.heard(client.SubscribingEvent{Channel: ch, Reason: client.Reason{Text: "subscribe called"}})
	m.seek(s)
}

func (m *model) unsubscribe(ch string) {
	s := m.sub(ch)
	if s.server || !s.wanted || m.closed {
		return
	}
	open := s.active || s.asking != 0
	s.wanted, s.active = false, false
	m.heard(client.UnsubscribedEvent{Channel: ch, Reason: client.Reason{Text: "unsubscribe called"}})
	if open {
		m.leave(s)
	}
}

// leave sends the unsubscribe command. A later answer to a subscribe does not count.
func (m *model) leave(s *modelSub) {
	s.asking, s.leaving = 0, true
	delete(m.numbers, s.number)
	m.send(&protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: s.ch}}, func(r *protocol.Reply, err error) {
		s.leaving = false
		switch {
		case r == nil:
		case err != nil:
			m.lost(client.Reason{Code: 4, Text: "unsubscribe error"})
		default:
			m.seek(s)
		}
	})
}

func (m *model) publish(ch string) {
	data, began := m.payload(ch), m.r.now()
	m.call(&protocol.Command{Publish: &protocol.PublishRequest{Channel: ch, Data: []byte(data)}}, func(err error) { m.published(ch, data, began, err) })
}

// call sends a command if the client is connected.
func (m *model) call(cmd *protocol.Command, done func(error)) {
	if m.state != client.Connected {
		done(errOffline)
		return
	}
	m.send(cmd, func(_ *protocol.Reply, err error) { done(err) })
}

func (m *model) ask(method protocol.Method, ch string) {
	m.call(m.request(method, ch), func(err error) { m.r.log.add(m.name, "%v of %s: %v", method, ch, err) })
}

func (m *model) request(method protocol.Method, ch string) *protocol.Command {
	switch method {
	case protocol.MethodPresence:
		return &protocol.Command{Presence: &protocol.PresenceRequest{Channel: ch}}
	case protocol.MethodPresenceStats:
		return &protocol.Command{PresenceStats: &protocol.PresenceStatsRequest{Channel: ch}}
	case protocol.MethodHistory:
		return &protocol.Command{History: &protocol.HistoryRequest{Channel: ch, Limit: 3}}
	case protocol.MethodSend:
		return &protocol.Command{Send: &protocol.SendRequest{Data: []byte(`{}`)}}
	}
	return &protocol.Command{RPC: &protocol.RPCRequest{Method: "echo", Data: []byte(m.numbered("call"))}}
}
