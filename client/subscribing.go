package client

import "github.com/gyrohq/gyro/protocol"

// All methods in this file but prepare and refresh are called with the client's lock held.

func (s *Subscription) enter(state SubscriptionState, r Reason) {
	s.state, s.reason, s.since, s.live, s.failure = state, r, s.c.now(), false, nil
	s.try++
	s.tell()
	switch state {
	case Unsubscribed:
		s.queues.Push(UnsubscribedEvent{s.channel, r})
	case Subscribing:
		s.queues.Push(SubscribingEvent{s.channel, r})
	}
}

func (s *Subscription) tell() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// disconnected ends the waits, and the iterators that last as long as the client keeps itself connected.
func (s *Subscription) disconnected(e DisconnectedEvent) {
	s.tell()
	s.queues.Finish(e)
}

func (s *Subscription) end() {
	s.closed = true
	s.queues.End(false)
}

// leave does not tell the server. A map keeps its entries, which deltas build on if it goes on from its position.
func (s *Subscription) leave(r Reason) {
	s.sent, s.base = false, nil
	if s.entries == nil {
		s.bases = nil
	}
	if s.state != Unsubscribed {
		s.enter(Unsubscribed, r)
	}
}

func (s *Subscription) quit(r Reason) {
	s.withdraw()
	s.leave(r)
}

// withdraw sends unsubscribe if the server has the subscribe command.
func (s *Subscription) withdraw() {
	l := s.c.link
	if l == nil || !s.sent {
		return
	}
	s.sent = false
	l.unnumber(s.channel)
	if l.leaving == nil {
		l.leaving = make(map[string]bool)
	}
	l.leaving[s.channel] = true
	broken := func() { l.gone(ending{reason: UnsubscribeError}) }
	l.ask(&protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: s.channel}}, broken, func(r *protocol.Reply) {
		if r.Error != nil {
			broken()
			return
		}
		delete(l.leaving, s.channel)
		if next := l.subscription(s.channel); next != nil { // another one, perhaps
			next.start()
		}
	})
	l.flush()
}

func (s *Subscription) lost() {
	s.sent = false
	switch s.state {
	case Subscribed:
		s.enter(Subscribing, TransportClosed)
	case Subscribing:
		s.try++
	}
}

func (s *Subscription) invalidate() {
	s.stream.invalidate()
	if s.so.GetToken != nil {
		s.token = ""
	}
}

func (s *Subscription) start() {
	l := s.c.link
	if l == nil || s.state != Subscribing || l.leaving[s.channel] || s.sent {
		return
	}
	s.try++
	if s.token == "" && s.so.GetToken != nil || s.so.GetData != nil || s.wantsState() {
		go s.prepare(l, s.try)
		return
	}
	s.send(l, s.so.Data)
}

func (s *Subscription) wantsState() bool { return s.so.GetState != nil && !s.recoverable }

// prepare asks the application for token, state and data, one after the other, and subscribes.
func (s *Subscription) prepare(l *link, try int) {
	s.c.mu.Lock()
	token, loads := s.token, s.wantsState()
	s.c.mu.Unlock()
	var err error
	if token == "" && s.so.GetToken != nil {
		token, err = s.so.GetToken(l.life(), s.channel)
		if denied(token, err) {
			s.prepared(l, try, func() { s.leave(Unauthorized) })
			return
		}
		if err != nil {
			s.prepared(l, try, func() { s.again(l, errSubToken.of(err)) })
			return
		}
		s.c.mu.Lock()
		s.token = token
		s.c.mu.Unlock()
	}
	var at StreamPosition
	if loads {
		if at, err = s.so.GetState(l.life(), s.channel); err != nil {
			s.prepared(l, try, func() { s.again(l, errState.of(err)) })
			return
		}
	}
	data := s.so.Data
	if s.so.GetData != nil {
		if data, err = s.so.GetData(l.life(), s.channel); err != nil {
			s.prepared(l, try, func() { s.again(l, errData.of(err)) })
			return
		}
	}
	s.prepared(l, try, func() {
		if loads {
			s.recoverable, s.at = true, at
		}
		s.send(l, data)
	})
}

// prepared goes on with an attempt if it still counts.
func (s *Subscription) prepared(l *link, try int, on func()) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.try == try && !l.dropped {
		on()
		l.flush()
	}
}

func (s *Subscription) send(l *link, data []byte) {
	if s.entries != nil {
		s.entries.begin(s)
	}
	r := s.request()
	r.Token, r.Data = s.token, data
	s.command(l, r)
}

func (s *Subscription) command(l *link, r *protocol.SubscribeRequest) {
	r.Channel, r.Tf, r.Type = s.channel, s.so.Filter, s.kind
	if s.tracked == nil {
		r.Flag = flagCompaction
	}
	if s.entries != nil {
		s.entries.fill(r)
	}
	r.Positioned, r.Recoverable, r.JoinLeave = s.so.Positioned, s.so.Recoverable, s.so.JoinLeave
	if s.so.Delta && !s.plain {
		r.Delta = "fossil"
	}
	if s.so.GetState != nil {
		r.Flag |= flagState
	}
	s.sent = true
	try := s.try
	l.ask(&protocol.Command{Subscribe: r}, func() { l.gone(ending{reason: SubscribeTimeout, failure: *ErrTimeout}) }, func(r *protocol.Reply) {
		if s.try == try {
			s.answered(l, r)
		}
	})
}

func (s *Subscription) answered(l *link, r *protocol.Reply) {
	switch {
	case r.Error != nil:
		s.sent = false
		s.refused(l, r.Error)
		return
	case r.Subscribe == nil:
		l.gone(ending{reason: BadProtocol, cause: noResult("subscribe"), last: true})
		return
	}
	l.number(s.channel, r.Subscribe.ID)
	if s.entries != nil && r.Subscribe.Phase != phaseLive {
		s.step(l, r.Subscribe)
		return
	}
	s.enter(Subscribed, Reason{})
	s.reload = false
	if r.Subscribe.Expires {
		s.refreshAfter(l, r.Subscribe.TTL)
	}
	var err error
	switch {
	case s.tracked != nil:
		s.pollSubscribed(l, r.Subscribe)
	case s.entries != nil:
		err = s.mapAnswered(r.Subscribe)
	default:
		err = s.subscribed(r.Subscribe)
	}
	if err != nil {
		s.misfit(err)
	}
}

func (s *Subscription) step(l *link, r *protocol.SubscribeResult) {
	if err := s.mapAnswered(r); err != nil {
		s.misfit(err)
		return
	}
	s.command(l, new(protocol.SubscribeRequest))
}

func (s *Subscription) refused(l *link, e *protocol.Error) {
	switch {
	case e.Code == protocol.ErrorTokenExpired.Code && s.so.GetToken == nil:
		s.leave(Unauthorized)
	case e.Code == protocol.ErrorTokenExpired.Code:
		s.token = ""
		s.again(l, e)
	case e.Code == protocol.ErrorUnrecoverablePosition.Code && (s.so.GetState != nil || s.entries != nil):
		s.recoverable, s.base, s.bases = false, nil, nil
		if s.reload {
			s.again(l, e)
			return
		}
		s.reload = true
		s.start()
	case temporary(e):
		s.again(l, e)
	default:
		s.leave(Reason{e.Code, e.Message})
	}
}

func (s *Subscription) again(l *link, e *Error) {
	s.failure = e
	s.queues.Push(errorEvent(s.channel, e))
	s.later(l)
}

func (s *Subscription) later(l *link) {
	s.try++
	try := s.try
	l.after(s.c.pause(&s.failed), func() {
		if s.try == try {
			s.start()
		}
	})
}

// misfit subscribes again, without deltas, after one that does not fit.
func (s *Subscription) misfit(err error) {
	e := errDelta.of(err)
	s.plain, s.base, s.bases = true, nil, nil
	s.queues.Push(errorEvent(s.channel, e))
	s.enter(Subscribing, BadDelta)
	s.withdraw()
}

func (s *Subscription) push(l *link, p *protocol.Push) {
	switch {
	case p.Unsubscribe != nil:
		s.unsubscribed(l, p.Unsubscribe)
	case p.Pub == nil:
		s.event(p)
	case s.tracked != nil:
		if err := s.value(p.Pub); err != nil {
			s.misfit(err)
		}
	case s.live || p.Pub.Offset == 0 && s.entries == nil:
		if err := s.publication(p.Pub); err != nil {
			s.misfit(err)
		}
	}
}

// unsubscribed: the server has ended the subscription. If subscribe has no reply yet, the push may be older, and the
// server about to subscribe the client: so it is told to end that as well.
func (s *Subscription) unsubscribed(l *link, u *protocol.Unsubscribe) {
	if s.state == Subscribing {
		s.withdraw()
	}
	s.sent = false
	l.unnumber(s.channel)
	if u.Code < protocol.UnsubscribeInsufficientState.Code {
		s.leave(Reason{u.Code, u.Reason})
		return
	}
	if u.Code == protocol.UnsubscribeStateInvalidated.Code {
		s.invalidate()
	}
	if s.state == Subscribed && s.c.now().Sub(s.since) >= lasting {
		s.failed = 0
	}
	s.enter(Subscribing, Reason{u.Code, u.Reason})
	if s.failed == 0 {
		s.failed++
		s.start()
		return
	}
	s.later(l)
}

func (s *Subscription) refreshAfter(l *link, ttl uint32) {
	if s.so.GetToken == nil {
		return // the server tells when it is over
	}
	try := s.try
	l.after(seconds(ttl), func() {
		if s.try == try {
			go s.refresh(l, try)
		}
	})
}

func (s *Subscription) refresh(l *link, try int) {
	token, err := s.so.GetToken(l.life(), s.channel)
	s.prepared(l, try, func() {
		switch {
		case denied(token, err):
			s.quit(Unauthorized)
		case err != nil:
			s.retryRefresh(l, try, errSubRefresh.of(err))
		default:
			s.token = token
			s.sendRefresh(l, try)
		}
	})
}

func (s *Subscription) sendRefresh(l *link, try int) {
	late := func() { s.retryRefresh(l, try, ErrTimeout) }
	l.ask(&protocol.Command{SubRefresh: &protocol.SubRefreshRequest{Channel: s.channel, Token: s.token}}, late, func(r *protocol.Reply) {
		switch {
		case s.try != try:
		case r.Error != nil && temporary(r.Error):
			s.retryRefresh(l, try, r.Error)
		case r.Error != nil:
			s.quit(Reason{r.Error.Code, r.Error.Message})
		case r.SubRefresh != nil && r.SubRefresh.Expires:
			s.refreshAfter(l, r.SubRefresh.TTL)
		}
	})
}

func (s *Subscription) retryRefresh(l *link, try int, e *Error) {
	if s.try != try {
		return
	}
	s.queues.Push(errorEvent(s.channel, e))
	l.after(s.c.refreshPause(), func() {
		if s.try == try {
			go s.refresh(l, try)
		}
	})
}
