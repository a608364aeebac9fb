package session

import (
	"maps"
	"slices"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
)

func (s *Session) handleConnect(id uint32, req *protocol.ConnectRequest) effect.Effect {
	s.state = stateAuthenticating
	s.compacts = s.via.Compacts(req.Name)
	return s.begin(&effect.Connecting{Request: req, ID: id})
}

// ReceiveConnect begins a one-way connection. text is the source of req, or nil.
func (s *Session) ReceiveConnect(req *protocol.ConnectRequest, text []byte) {
	s.env.Counts().Received(s, &protocol.Command{Connect: req}, text)
	s.run(s.handleConnect(0, req))
}

// takeConnect takes a message of a one-way connection: its connect request, unless the transport had that already.
// Further messages are ignored. A client that sends something else speaks another protocol, so it gets no push.
func (s *Session) takeConnect(msg []byte) {
	if s.state != stateConnecting {
		return
	}
	req, err := s.via.DecodeConnect(msg)
	if err != nil {
		s.env.Counts().Malformed(s, msg)
		s.env.Explain(ConnectRefused, "", refusal.Because(protocol.DisconnectBadRequest, "", "the connect request is malformed: "+err.Error()))
		s.conn.Close(protocol.DisconnectBadRequest, nil)
		s.endSession(protocol.DisconnectBadRequest)
		return
	}
	s.ReceiveConnect(req, msg)
}

func (s *Session) afterConnecting(e *effect.Connecting) effect.Effect {
	if e.Err != nil {
		s.refuseConnect(e.ID, e.Err)
		return nil
	}
	who := &e.Identity
	if len(who.Subs) > s.cfg.ChannelLimit {
		s.env.Refused(observe.LimitChannels, "")
		s.Close(protocol.DisconnectChannelLimit)
		return nil
	}
	if !who.Known {
		s.env.Explain(ConnectRefused, "", errNoCredentials)
		s.Close(protocol.DisconnectBadRequest)
		return nil
	}
	s.user, s.clientRefresh = who.User, who.ClientRefresh
	s.agent = s.env.Counts().Agent(e.Request, e.Labels)
	expireAt := s.capExpiry(who.ExpireAt)
	s.credentials.Set(credentials{Info: who.Info, ExpireAt: expireAt, Token: who.Token})
	if !s.env.Register(e.Request) {
		s.Close(protocol.DisconnectConnectionLimit)
		return nil
	}
	s.registered = true
	if s.past(expireAt) {
		s.env.Explain(ConnectRefused, "", errCredentialsExpired)
		s.refuseConnect(e.ID, protocol.ErrorExpired)
		return nil
	}
	if len(who.Subs) == 0 {
		result := &s.env.Scratch().connect
		*result = s.via.Result(e.Request, s.user, who.Data)
		s.acceptConnect(e.ID, result)
		return nil
	}
	attach := &effect.Attach{ID: e.ID, Connect: new(s.via.Result(e.Request, s.user, who.Data))}
	for _, ch := range slices.Sorted(maps.Keys(who.Subs)) { // in an order, as they share the room of the reply
		opts := who.Subs[ch]
		if !s.fits(ch) {
			s.refuseConnect(e.ID, protocol.ErrorBadRequest)
			return nil
		}
		req := e.Request.Subs[ch]
		if req == nil {
			req = &protocol.SubscribeRequest{}
		}
		item, err := s.serverSubscription(ch, &opts, req)
		if err != nil {
			s.env.Explain(ConnectRefused, ch, err)
			s.refuseConnect(e.ID, err)
			return nil
		}
		attach.Items = append(attach.Items, item)
	}
	return attach
}

// refuseConnect answers with an error and closes the connection, by an empty disconnect: the transport lets the client
// close first.
func (s *Session) refuseConnect(id uint32, err error) {
	if s.via.Mode == transport.OneWay {
		s.Close(connkind.Refusal(s.conn, err, s.cfg.ConnectDisconnects))
		return
	}
	s.finish(id, err, protocol.Reply{})
	s.Close(protocol.Disconnect{})
}

func (s *Session) afterConnectAttach(e *effect.Attach) {
	result := e.Connect
	result.Subs = make(map[string]*protocol.SubscribeResult, len(e.Items))
	budget := recovery.Budget(s.cfg.QueueMaxSize-len(result.Data), len(e.Items))
	for _, it := range e.Items {
		err := it.Err
		if err != nil {
			err = effect.Answer(err)
		} else {
			result.Subs[it.Channel], err = attaching(it).recoverWithin(it, &budget, new(subscribeResult))
		}
		if err != nil {
			s.refuseConnect(e.ID, err)
			return
		}
	}
	s.acceptConnect(e.ID, result)
	for _, it := range e.Items {
		s.run(attaching(it).goLive())
	}
}

func (s *Session) acceptConnect(id uint32, r *protocol.ConnectResult) {
	s.state = stateConnected
	r.Client, r.Version = s.env.ID(), s.cfg.Version
	if s.clientRefresh {
		r.Expires, r.TTL = s.remaining(s.credentials.Get().ExpireAt)
	}
	if s.pings() {
		r.Ping = uint32(max(s.cfg.PingInterval/time.Second, 1)) // clients do not answer pings if it is 0
		r.Pong = s.pongs()
	}
	if s.via.Sessions() {
		r.Session = s.env.SessionID()
	}
	if s.via.Emulated() {
		r.Node = s.cfg.NodeID
	}
	if s.cfg.SendTime {
		r.Time = s.env.Wall() / int64(time.Millisecond)
	}
	s.finish(id, nil, protocol.Reply{Connect: r})
	if s.state == stateClosed {
		return
	}
	s.via = s.via.Behind(r)
	if s.leaving() {
		s.env.Gone()
	}
	s.startTimers()
	s.connected = true
	s.env.Counts().Connected(s)
	s.env.Note(inspect.Connected, "", 0, 0, s.via.Name)
	s.env.Do(&effect.Connected{})
}

func (s *Session) ttl(expireAt int64) int64          { return beat.TTL(s.env.Now(), expireAt) }
func (s *Session) past(expireAt int64) bool          { return expireAt != 0 && s.ttl(expireAt) <= 0 }
func (s *Session) remaining(at int64) (bool, uint32) { return beat.Remaining(s.env.Now(), at) }

// expiry turns the time when something expires by the node's clock, in Unix seconds, into one by env.Now: a later jump
// of the node's clock does not change how long it lives.
func (s *Session) expiry(at int64) int64 {
	if at <= 0 {
		return 0
	}
	ahead := time.Duration(s.env.Wall() - s.env.Now()).Round(time.Second)
	return max(at-int64(ahead/time.Second), 1)
}

func (s *Session) capExpiry(at int64) int64 { return beat.CapExpiry(s.env.Now(), s.expiry(at)) }

func (s *Session) clientInfo(chanInfo []byte) *channel.ClientInfo {
	return &channel.ClientInfo{User: s.user, Client: s.env.ID(), ConnInfo: s.Info(), ChanInfo: chanInfo}
}
