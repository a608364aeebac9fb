package session

import (
	"cmp"
	"errors"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// usable makes the checks of all commands on channels. It answers the client if one fails.
func (s *Session) usable(id uint32, handled bool, handler, ch string) bool {
	switch {
	case !handled:
		s.refuse(id, ch, noHandler(protocol.ErrorNotAvailable, handler))
	case ch == "":
		s.refuse(id, "", errNoChannel)
	case !s.fits(ch):
		s.replyError(id, protocol.ErrorBadRequest)
	default:
		return true
	}
	return false
}

func (s *Session) handlePublish(id uint32, req *protocol.PublishRequest) effect.Effect {
	handled, handler := s.cfg.Handles.Publish, "Publish"
	if req.Type != 0 {
		handled, handler = s.cfg.Handles.MapChange && req.Type == int32(channel.MapData), "MapChange"
	}
	if !s.usable(id, handled, handler, req.Channel) {
		return nil
	}
	e := &effect.Publish{Request: req, Info: s.clientInfo(nil), Command: effect.Command{ID: id}}
	if b := s.subs.Get(req.Channel); b.established() {
		e.Standing, e.Info.ChanInfo, e.Feed = b.standing(), b.terms.ChanInfo, b.terms.Feed
	}
	return s.begin(e)
}

func (s *Session) handlePresence(id uint32, req *protocol.PresenceRequest) effect.Effect {
	if s.usable(id, s.cfg.Handles.Presence, "Presence", req.Channel) {
		return s.begin(&effect.Presence{Channel: req.Channel, Standing: s.subs.Get(req.Channel).standing(), Command: effect.Command{ID: id}})
	}
	return nil
}

func (s *Session) handlePresenceStats(id uint32, req *protocol.PresenceStatsRequest) effect.Effect {
	if s.usable(id, s.cfg.Handles.PresenceStats, "PresenceStats", req.Channel) {
		return s.begin(&effect.PresenceStats{Channel: req.Channel, Standing: s.subs.Get(req.Channel).standing(), Command: effect.Command{ID: id}})
	}
	return nil
}

func (s *Session) handleHistory(id uint32, req *protocol.HistoryRequest) effect.Effect {
	if !s.usable(id, s.cfg.Handles.History, "History", req.Channel) {
		return nil
	}
	b := s.subs.Get(req.Channel)
	if b.established() && b.terms.FilteredByServer() {
		s.refuse(id, req.Channel, errHistoryFiltered)
		return nil
	}
	e := &effect.History{
		Channel: req.Channel, Standing: b.standing(), Command: effect.Command{ID: id},
		HistoryFilter: channel.HistoryFilter{
			Since: (*channel.StreamPosition)(req.Since), Limit: int(req.Limit), Reverse: req.Reverse,
		},
	}
	if e.Since != nil && e.Since.Offset == 0 && e.Reverse {
		s.refuse(id, req.Channel, errSince)
		return nil
	}
	if limit := s.cfg.HistoryLimit; limit > 0 && (e.Limit < 0 || e.Limit > limit) {
		e.Limit = limit
	}
	return s.begin(e)
}

func (s *Session) afterHistory(e *effect.History) {
	r := protocol.HistoryResult{Epoch: e.Top.Epoch, Offset: e.Top.Offset}
	if e.Err == nil {
		var all hub.Results
		r.Publications = all.Make(e.Publications, hub.Form(0), s.via.Framer.Encoding())
		s.leftOut(e.Channel, all.LeftOut)
	}
	s.finish(e.ID, e.Err, protocol.Reply{History: &r})
}

func (s *Session) leftOut(ch string, n int) {
	for range n {
		s.env.Refused(observe.LimitFormat, ch)
	}
}

func (s *Session) handleRPC(id uint32, req *protocol.RPCRequest) effect.Effect {
	if !s.cfg.Handles.RPC {
		s.refuse(id, "", noHandler(protocol.ErrorNotAvailable, "RPC"))
		return nil
	}
	return s.begin(&effect.RPC{Request: req, Command: effect.Command{ID: id}})
}

func (s *Session) handleMessage(req *protocol.SendRequest) effect.Effect {
	if !s.cfg.Handles.Message {
		s.refuse(0, "", noHandler(protocol.DisconnectNotAvailable, "Message"))
		return nil
	}
	return s.begin(&effect.Message{Data: req.Data})
}

// afterMessage ignores errors but disconnects, because a message has no reply.
func (s *Session) afterMessage(e *effect.Message) {
	s.inflight--
	if d, ok := errors.AsType[protocol.Disconnect](e.Err); ok {
		s.Close(d)
	}
}

// Send pushes a message to the client.
func (s *Session) Send(data []byte) {
	if s.state == stateConnected {
		s.reply(protocol.Reply{Push: &protocol.Push{Message: &protocol.Message{Data: data}}})
	}
}

func (s *Session) handleRefresh(id uint32, req *protocol.RefreshRequest) effect.Effect {
	switch {
	case !s.cfg.Handles.Refresh:
		s.refuse(id, "", noHandler(protocol.ErrorNotAvailable, "Refresh"))
	case req.Token == "" || !s.clientRefresh:
		s.refuse(id, "", errNoRefresh)
	default:
		return s.begin(&effect.Refresh{Renewal: effect.Renewal{ClientSide: true, Token: req.Token, ID: id}})
	}
	return nil
}

func (s *Session) afterRefresh(e *effect.Refresh) {
	if !e.ClientSide {
		s.afterServerRefresh(e)
		return
	}
	expireAt := s.capExpiry(e.ExpireAt)
	switch {
	case e.Err != nil:
		s.finish(e.ID, e.Err, protocol.Reply{})
	case e.Expired:
		s.finish(e.ID, protocol.DisconnectExpired, protocol.Reply{})
	case s.past(expireAt):
		s.finish(e.ID, protocol.ErrorExpired, protocol.Reply{})
	default:
		s.prolong(credentials{Info: e.Info, ExpireAt: expireAt, Token: e.NewToken})
		s.withdraw(e.Capabilities)
		r := &protocol.RefreshResult{}
		r.Expires, r.TTL = s.remaining(expireAt)
		s.finish(e.ID, nil, protocol.Reply{Refresh: r})
	}
}

func (s *Session) afterServerRefresh(e *effect.Refresh) {
	s.inflight--
	expireAt := s.capExpiry(e.ExpireAt)
	d, disconnect := errors.AsType[protocol.Disconnect](e.Err)
	switch {
	case disconnect:
		s.Close(d)
	case e.Err != nil:
		s.Close(protocol.DisconnectServerError)
	case e.Expired || s.past(expireAt):
		s.Close(protocol.DisconnectExpired)
	default:
		s.prolong(credentials{Info: e.Info, ExpireAt: expireAt, Token: e.NewToken})
		s.withdraw(e.Capabilities)
	}
}

// prolong replaces info and token unless they are nil.
func (s *Session) prolong(l credentials) {
	s.credentials.Prolong(l)
	s.setExpiry()
}

// ServerRefresh changes the expiration for the server and tells the client.
func (s *Session) ServerRefresh(expired bool, expireAt int64, info []byte) {
	if s.state != stateConnected {
		return
	}
	expireAt = s.capExpiry(expireAt)
	if expired || s.past(expireAt) {
		s.Close(protocol.DisconnectExpired)
		return
	}
	push := &protocol.Refresh{}
	if push.Expires, push.TTL = s.remaining(expireAt); !push.Expires {
		info = nil
	}
	s.prolong(credentials{Info: info, ExpireAt: expireAt})
	s.reply(protocol.Reply{Push: &protocol.Push{Refresh: push}})
}

func (s *Session) handleSubRefresh(id uint32, req *protocol.SubRefreshRequest) effect.Effect {
	if req.Channel == "" {
		s.refuse(id, "", errNoChannel)
		return nil
	}
	b := s.subs.Get(req.Channel)
	switch {
	case !b.established() && !b.catchesUp():
		s.refuse(id, req.Channel, errNotSubscribed)
	case req.Type != 0 && b.terms.Keys != nil:
		return s.handleTrack(id, b, req)
	case req.Type != 0 || !s.cfg.Handles.SubRefresh:
		s.refuse(id, req.Channel, noHandler(protocol.ErrorNotAvailable, "SubRefresh"))
	case !b.clientRefresh:
		s.refuse(id, req.Channel, errNoRefresh)
	case req.Token == "":
		s.refuse(id, req.Channel, errNoToken)
	default:
		return s.begin(&effect.SubRefresh{Channel: req.Channel, Renewal: effect.Renewal{ClientSide: true, Token: req.Token, ID: id}, Ref: b})
	}
	return nil
}

func (s *Session) afterSubRefresh(e *effect.SubRefresh) {
	if !e.ClientSide {
		s.afterServerSubRefresh(e)
		return
	}
	expireAt := s.capExpiry(e.ExpireAt)
	err := e.Err
	switch {
	case err != nil:
	case e.Expired:
		err = protocol.ErrorTokenExpired
	case expireAt != 0 && s.ttl(expireAt) < 0:
		err = protocol.ErrorExpired
	}
	if b := e.Ref.(*Subscription); err == nil && s.subs.Get(e.Channel) == b {
		if err = b.prolong(expireAt, e); errors.Is(err, errInvalidated) {
			s.inflight--
			return
		}
	}
	r := &protocol.SubRefreshResult{}
	r.Expires, r.TTL = s.remaining(expireAt)
	s.finish(e.ID, err, protocol.Reply{SubRefresh: r})
}

func (s *Session) afterServerSubRefresh(e *effect.SubRefresh) {
	s.inflight--
	b := e.Ref.(*Subscription)
	b.refreshing = false
	if s.subs.Get(e.Channel) != b || b.state != subLive {
		return
	}
	expireAt := s.capExpiry(e.ExpireAt)
	d, disconnect := errors.AsType[protocol.Disconnect](e.Err)
	switch {
	case disconnect:
		s.Close(d)
	case e.Err != nil, e.Expired, s.past(expireAt):
		s.subExpired(b)
	default:
		if err := b.prolong(expireAt, e); err != nil && !errors.Is(err, errInvalidated) {
			s.subExpired(b)
		}
	}
}

// errInvalidated is the error of prolong if it has ended the subscription.
var errInvalidated = errors.New("the entries that the client has are not those of its filter")

// prolong replaces filter and token unless they are nil. With a filter that is wrong nothing changes. With another
// filter, the subscriber of a map must begin anew, and the error is errInvalidated.
func (b *Subscription) prolong(expireAt int64, e *effect.SubRefresh) error {
	t := *b.terms
	if err := t.SetServerFilter(e.ServerTagsFilter); err != nil {
		return err
	}
	t.ExpireAt, t.ChanInfo, t.Token = expireAt, e.Info, cmp.Or(e.NewToken, t.Token)
	if e.Rights != nil {
		t.rights = *e.Rights
	}
	if b.at.Keyed && !t.SameServerFilter(b.terms) {
		b.s.ServerUnsubscribe(b.channel, protocol.UnsubscribeStateInvalidated)
		return errInvalidated
	}
	b.terms = t.Shared()
	return nil
}
