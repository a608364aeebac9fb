// Package session is one client's state machine: commands, ticks, publications and completions in; frames and effects
// out. It does no I/O, reads no clock and starts no goroutine, so tests can drive it through any interleaving.
package session

import (
	"errors"
	"fmt"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/channelset"
	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

type state uint8

const (
	stateConnecting state = iota
	// The connect command is in progress; all others wait.
	stateAuthenticating
	stateConnected
	stateClosed
)

// Session is one client. Its owner calls its methods, one at a time.
type Session struct {
	env  Env
	cfg  *Config
	via  *connkind.Kind
	conn transport.Conn

	user        string
	credentials credentialsHolder

	out     sendqueue.Queue
	subs    channelset.Set[*Subscription]
	pending *pending // nil unless something waits

	deadlines deadlines

	inflight int32 // commands in progress
	agent    observe.Agent
	pongsDue uint16 // more than one only while the session is paused

	state         state
	dirty         bool
	paused        bool
	registered    bool
	connected     bool // the Connected effect was started
	clientRefresh bool
	compacts      bool // the client understands numbers instead of names
}

// Init makes s ready for use; it starts the stale timer.
func (s *Session) Init(env Env, cfg *Config, conn transport.Conn, kind *connkind.Kind) {
	*s = Session{env: env, cfg: cfg, via: kind, conn: conn}
	if cfg.StaleDelay > 0 {
		s.deadlines.stale = env.Now() + int64(cfg.StaleDelay)
		s.reschedule()
	}
}

// Via is the kind of the connection.
func (s *Session) Via() *connkind.Kind { return s.via }

// Agent is the software that the client has named; connected: the client has connected.
func (s *Session) Agent() (a observe.Agent, connected bool) { return s.agent, s.connected }

// User is empty before the connect, and for anonymous clients.
func (s *Session) User() string { return s.user }

// Info and Token may be called by any goroutine once the client has connected.
func (s *Session) Info() []byte          { return s.credentials.Get().Info }
func (s *Session) Token() *channel.Token { return s.credentials.Get().Token }

// dispatch takes a command, or closes the connection if it may not come now. It returns the effect of the command, for
// run, or nil.
func (s *Session) dispatch(cmd *protocol.Command) effect.Effect {
	method := cmd.Method()
	switch {
	case s.state == stateConnecting && cmd.Connect != nil && cmd.ID != 0:
		return s.handleConnect(cmd.ID, cmd.Connect)
	case s.state == stateConnecting:
		s.refuse(0, "", errNotConnect)
	case cmd.ID == 0 && cmd.Send == nil:
		s.handlePong()
	case method == protocol.MethodConnect, cmd.ID == 0 && *cmd != (protocol.Command{Send: cmd.Send}):
		s.refuse(0, "", errNoID) // a second connect, or a command that needs a reply but has no id
	case cmd.Ping != nil && *cmd == (protocol.Command{ID: cmd.ID, Ping: cmd.Ping}):
		s.refuse(0, "", errUnknownCommand)
	case cmd.Ping != nil: // the protocol has it, but does not use it
		s.refuse(cmd.ID, "", errPing)
	default:
		return s.handle(method, cmd)
	}
	return nil
}

func (s *Session) handle(method protocol.Method, cmd *protocol.Command) effect.Effect {
	switch method {
	case protocol.MethodSubscribe:
		return s.handleSubscribe(cmd.ID, cmd.Subscribe)
	case protocol.MethodUnsubscribe:
		return s.handleUnsubscribe(cmd.ID, cmd.Unsubscribe)
	case protocol.MethodPublish:
		return s.handlePublish(cmd.ID, cmd.Publish)
	case protocol.MethodPresence:
		return s.handlePresence(cmd.ID, cmd.Presence)
	case protocol.MethodPresenceStats:
		return s.handlePresenceStats(cmd.ID, cmd.PresenceStats)
	case protocol.MethodHistory:
		return s.handleHistory(cmd.ID, cmd.History)
	case protocol.MethodRPC:
		return s.handleRPC(cmd.ID, cmd.RPC)
	case protocol.MethodSend:
		return s.handleMessage(cmd.Send)
	case protocol.MethodRefresh:
		return s.handleRefresh(cmd.ID, cmd.Refresh)
	case protocol.MethodSubRefresh:
		return s.handleSubRefresh(cmd.ID, cmd.SubRefresh)
	}
	s.refuse(0, "", errUnknownCommand)
	return nil
}

// begin counts a command in progress, until finish, and returns its effect, for run.
func (s *Session) begin(e effect.Effect) effect.Effect {
	s.inflight++
	return e
}

// run does an effect, and those that follow while each is done at once. Methods return effects to it instead of starting
// them, so that no effect completes within a method.
func (s *Session) run(e effect.Effect) {
	for e != nil && s.env.Do(e) && !s.holds(e) {
		e = s.take(e)
	}
}

// Complete takes an effect that was done.
func (s *Session) Complete(e effect.Effect) {
	switch {
	case s.state == stateClosed:
		s.completeLate(e)
	case !s.holds(e):
		s.run(s.take(e))
		if s.state != stateClosed {
			s.dispatchWaiting()
		}
	}
}

func (s *Session) completeLate(e effect.Effect) {
	switch e := e.(type) {
	case *effect.Attach:
		s.detachLate(e)
	case *effect.Subscribing:
		closeFeed(e.Feed)
	}
}

// take takes the result of an effect, and returns the effect that continues it, or nil.
func (s *Session) take(e effect.Effect) effect.Effect {
	switch e := e.(type) {
	case *effect.Connecting:
		return s.afterConnecting(e)
	case *effect.Subscribing:
		return s.afterSubscribing(e)
	case *effect.Attach:
		return s.afterAttach(e)
	case *effect.Page:
		return s.afterPage(e)
	case *effect.Detach:
		s.afterDetach(e)
	case *effect.Publish:
		s.finish(e.ID, e.Err, protocol.Reply{Publish: &protocol.PublishResult{}})
	case *effect.Presence:
		s.finish(e.ID, e.Err, protocol.Reply{Presence: &protocol.PresenceResult{Presence: e.Clients}})
	case *effect.PresenceStats:
		s.finish(e.ID, e.Err, protocol.Reply{PresenceStats: &protocol.PresenceStatsResult{
			NumClients: uint32(e.Clients), NumUsers: uint32(e.Users)}})
	case *effect.History:
		s.afterHistory(e)
	case *effect.RPC:
		s.finish(e.ID, e.Err, protocol.Reply{RPC: &protocol.RPCResult{Data: e.Data}})
	case *effect.Message:
		s.afterMessage(e)
	case *effect.Refresh:
		s.afterRefresh(e)
	case *effect.SubRefresh:
		s.afterSubRefresh(e)
	case *effect.Track:
		s.afterTrack(e)
	default:
		panic(fmt.Sprintf("session: nothing takes the completion of %T", e))
	}
	return nil
}

// detachLate ends what was established after the end of the session.
func (s *Session) detachLate(e *effect.Attach) {
	var items []effect.DetachItem
	for _, it := range e.Items {
		if b := attaching(it); it.Err == nil {
			items = append(items, b.detachItem(protocol.UnsubscribeDisconnect))
		} else {
			closeFeed(b.terms.Feed)
		}
	}
	if len(items) > 0 {
		s.env.Do(&effect.Undo{Items: items})
	}
}

// finish answers a command after its effect.
func (s *Session) finish(id uint32, err error, ok protocol.Reply) {
	s.inflight--
	if err != nil {
		s.fail(id, err)
		return
	}
	ok.ID = id
	s.reply(ok)
}

// fail answers with an error, or closes the connection if it is a disconnect.
func (s *Session) fail(id uint32, err error) {
	if d, ok := errors.AsType[protocol.Disconnect](err); ok {
		s.Close(d)
		return
	}
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		e = protocol.ErrorInternal
	}
	s.replyError(id, e)
}

// refuse answers by the answer of why.
func (s *Session) refuse(id uint32, ch string, why error) {
	s.env.Explain(commandRefused, ch, why)
	s.fail(id, why)
}

func (s *Session) replyError(id uint32, e *protocol.Error) { s.reply(protocol.Reply{ID: id, Error: e}) }

func (s *Session) reply(reply protocol.Reply) {
	if s.state == stateClosed {
		return
	}
	r := &s.env.Scratch().reply
	*r = reply
	p := s.env.Pool()
	open := s.out.Open(p, s.via.Framer)
	buf, err := s.via.Codec.AppendReply(open, r)
	size := len(buf) - len(open)
	switch {
	case err != nil:
		s.env.Explain(commandRefused, "", protocol.DisconnectInappropriateProtocol)
		s.Close(protocol.DisconnectInappropriateProtocol)
	case size > s.cfg.QueueMaxSize && r.ID > 0 && r.Error == nil && r.Connect == nil && r.Subscribe == nil:
		s.env.Refused(observe.LimitReply, "")
		s.replyError(r.ID, protocol.ErrorLimitExceeded) // the client can ask for less
	default:
		s.env.Counts().Replied(s, r, size)
		s.cfg.Taps.Sent(s.env, s, r)
		if s.via.Bookmarks > 0 {
			buf = s.withBookmark(buf, r)
		}
		s.queued(s.out.Add(p, buf), size)
	}
	*r = protocol.Reply{}
}

func (s *Session) push(frame []byte) {
	if s.state != stateClosed {
		s.queued(s.out.Push(s.env.Pool(), frame), len(frame))
	}
}

// queued: last is the size of the message, size of the queue.
func (s *Session) queued(size, last int) {
	if size > s.cfg.QueueMaxSize && !s.relieve(last) {
		return
	}
	if !s.dirty {
		s.dirty = true
		s.env.Dirty()
	}
}

// relieve is called when the queue is over its limit, and reports whether the session goes on. It flushes first: one
// turn may queue more than the limit for a client that takes all of it. A message over the limit is not flushed, because
// the transport would have to keep the rest.
func (s *Session) relieve(last int) bool {
	if last <= s.cfg.QueueMaxSize {
		s.flushQueue()
	}
	if s.out.Size() > s.cfg.QueueMaxSize {
		s.env.Refused(observe.LimitQueue, "")
		s.Close(protocol.DisconnectSlow)
	}
	return s.state != stateClosed
}

// Flush offers the queue to the transport, when the turn ends and when the transport is writable again.
func (s *Session) Flush() {
	s.dirty = false
	s.flushQueue()
	if s.pending != nil {
		s.askForHeld()
	}
}

func (s *Session) flushQueue() {
	if s.state == stateClosed {
		return
	}
	if s.out.Flush(s.env.Pool(), s.conn) == nil {
		return
	}
	// The transport will call Lost. Until then commands may still arrive, but nothing is sent.
	s.stopSending()
}

// CloseAfterDelivery first delivers all that was published before.
func (s *Session) CloseAfterDelivery(d protocol.Disconnect) {
	for b := range s.subs.All() {
		s.env.Finish(b)
		if s.state == stateClosed {
			return
		}
	}
	s.Close(d)
}

// Close closes the connection at once. Calls after the first do nothing.
func (s *Session) Close(d protocol.Disconnect) {
	if s.state == stateClosed {
		return
	}
	var rest [][]byte
	// A lost connection takes nothing any more, and a slow one not in time.
	if d.Code == protocol.DisconnectConnectionClosed.Code || d.Code == protocol.DisconnectSlow.Code {
		s.out.Drop(s.env.Pool())
	} else {
		if s.via.DisconnectPush && d.Code != 0 {
			s.lastPush(d)
		}
		rest = s.out.Take(s.env.Pool())
	}
	s.conn.Close(d, rest)
	s.endSession(d)
}

// lastPush ignores the limit of the queue.
func (s *Session) lastPush(d protocol.Disconnect) {
	r := &protocol.Reply{Push: &protocol.Push{Disconnect: &d}}
	open := s.out.Open(s.env.Pool(), s.via.Framer)
	if buf, err := s.via.Codec.AppendReply(open, r); err == nil {
		s.env.Counts().Replied(s, r, len(buf)-len(open))
		s.out.Add(s.env.Pool(), buf)
	}
}

// endSession leaves the transport alone. A subscription on its way to the engines is ended when its attach completes.
func (s *Session) endSession(d protocol.Disconnect) {
	s.state = stateClosed
	s.env.Schedule(0)
	s.unregister()
	end := &effect.Close{Disconnect: d, Connected: s.connected}
	for b := range s.subs.All() {
		switch {
		case b.state.attached():
			end.Add(b.detachItem(protocol.UnsubscribeDisconnect))
		case b.state.catchesUp(): // no effect on the way closes its feed
			closeFeed(b.terms.Feed)
		}
		s.leaveHub(b)
		b.state = subEnded
	}
	s.subs = channelset.Set[*Subscription]{}
	s.dropPending()
	if len(end.Items) > 0 || s.connected {
		s.env.Do(end)
	}
	s.env.Closed(d)
}

func (s *Session) unregister() {
	if s.registered {
		s.registered = false
		s.env.Unregister()
	}
}

// Abandon ends a session whose Close panicked. No step relies on another one: try contains the panic of each.
func (s *Session) Abandon(d protocol.Disconnect, try func(step func())) {
	s.state = stateClosed
	try(func() { s.conn.Close(d, nil) })
	try(s.stopSending)
	try(s.unregister)
	try(func() { s.env.Schedule(0) })
	var items []effect.DetachItem
	for b := range s.subs.All() {
		try(func() {
			switch {
			case b.state.attached():
				items = append(items, b.detachItem(protocol.UnsubscribeDisconnect))
			case b.state.catchesUp():
				closeFeed(b.terms.Feed)
			}
		})
		try(func() { s.leaveHub(b) })
		b.state = subEnded
	}
	s.subs = channelset.Set[*Subscription]{}
	try(s.dropPending)
	try(func() { s.env.Do(&effect.Close{Disconnect: d, Items: items, Connected: s.connected}) })
	try(func() { s.env.Closed(d) })
}
