package session

import (
	"errors"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/position"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// Bits of SubscribeRequest.Flag.
const (
	flagCompaction = 1 << 0
	flagReject     = 1 << 1
)

// subState: docs/session-states.md has the diagram.
type subState uint8

const (
	// subAsking: the application is being asked.
	subAsking subState = iota
	// subAttaching: the subscription is in the hub, buffers, and is on its way to the engines.
	subAttaching
	// subAttached: the engines have it and it must be detached from now on. The reply is not out; it still buffers.
	subAttached
	// subReading: a page of a map is being read. The engines do not have the subscription.
	subReading
	// subWaiting: the client has a page and may ask for the next one.
	subWaiting
	// subReadingAttached and subWaitingAttached are the same for an ephemeral map: the engines have the subscription,
	// and it buffers in the hub.
	subReadingAttached
	subWaitingAttached
	// subLive: the reply is out.
	subLive
	// subEnded: the session has removed it.
	subEnded
)

func (t subState) attached() bool {
	switch t {
	case subAttached, subReadingAttached, subWaitingAttached, subLive:
		return true
	}
	return false
}

func (t subState) buffers() bool {
	switch t {
	case subAttaching, subReadingAttached, subWaitingAttached:
		return true
	}
	return false
}

func (t subState) catchesUp() bool { return t.reads() || t.waits() }

// reads: a page is being read. waits: the client has a page.
func (t subState) reads() bool { return t == subReading || t == subReadingAttached }
func (t subState) waits() bool { return t == subWaiting || t == subWaitingAttached }

// reading is the state while the next page is read, waiting the state behind it.
func (t subState) reading() subState {
	if t == subWaitingAttached {
		return subReadingAttached
	}
	return subReading
}

func (t subState) waiting() subState {
	if t == subReadingAttached {
		return subWaitingAttached
	}
	return subWaiting
}

// Subscription is one channel of one session, and the hub's subscriber. There are very many, so fields that few use are
// in terms, and those for the time before the reply in setup.
type Subscription struct {
	s          *Session
	next       *Subscription // in the session's list
	membership hub.Membership
	channel    string
	at         position.Position

	terms *terms // never nil
	setup *setup // nil once the subscription is live

	state         subState
	source        uint8
	presence      bool
	pushJoinLeave bool
	serverSide    bool
	clientRefresh bool
	refreshing    bool // a server-side refresh is under way
	joined        bool // the join was published
}

// setup has what a subscription needs until the reply is out.
type setup struct {
	opts    *channel.SubscribeOptions // that the application granted
	catchup *catchup                  // nil unless the channel is a map
	buffer  position.Buffer
	// ended is set by an unsubscribe meanwhile, which ends the subscription as soon as it is established.
	ended *protocol.Unsubscribe
	// unsubscribers are the ids of the commands that wait for this end, until unsubscribeBy at most.
	unsubscribers []uint32
	unsubscribeBy int64

	// The effects are here to be allocated at once. subscribing has the request.
	subscribing effect.Subscribing
	attach      effect.Attach
	item        effect.AttachItem
}

// Channel of the subscription.
func (b *Subscription) Channel() string { return b.channel }

// Next implements channelset.Item.
func (b *Subscription) Next() **Subscription { return &b.next }

// Membership implements hub.Subscriber.
func (b *Subscription) Membership() *hub.Membership { return &b.membership }

// established: the client is subscribed. b may be nil.
func (b *Subscription) established() bool { return b != nil && b.state == subLive }

func (b *Subscription) info() *channel.ClientInfo { return b.s.clientInfo(b.terms.ChanInfo) }

func (s *Session) handleSubscribe(id uint32, req *protocol.SubscribeRequest) effect.Effect {
	switch {
	case req.Channel == "":
		s.refuse(id, "", errNoChannel)
	case req.Type < 0 || req.Type > channel.TypeSharedPoll || !s.cfg.Handles.Subscribe:
		s.refuse(id, req.Channel, noHandler(protocol.ErrorNotAvailable, "Subscribe"))
	case req.Type == 0 && req.Delta != "" && req.Delta != deltaFossil:
		s.refuse(id, req.Channel, errDelta)
	case !s.fits(req.Channel):
		s.replyError(id, protocol.ErrorBadRequest)
	default:
		return s.subscribe(id, req)
	}
	return nil
}

// subscribe begins a subscription, or goes on with the catch-up of a map.
func (s *Session) subscribe(id uint32, req *protocol.SubscribeRequest) effect.Effect {
	if req.Type != 0 {
		s.endLateCatchUps(req.Channel)
		if b := s.subs.Get(req.Channel); b.catching() && (req.Cursor != "" || req.Phase != recovery.PhaseState) {
			s.inflight++
			return s.nextPage(b, id, req)
		}
	}
	switch {
	case s.subs.Get(req.Channel) != nil:
		s.refuse(id, req.Channel, errSubscribed)
	case s.subs.Len() >= s.cfg.ChannelLimit:
		s.env.Refused(observe.LimitChannels, req.Channel)
		s.replyError(id, protocol.ErrorLimitExceeded)
	case req.Type != 0 && req.Cursor != "":
		s.refuse(id, req.Channel, errNoCursor)
	default:
		b := s.reserve(req.Channel, req)
		e := &b.setup.subscribing
		e.Request, e.ID, e.Ref = req, id, b
		return s.begin(e)
	}
	return nil
}

func (s *Session) fits(ch string) bool {
	if len(ch) <= s.cfg.ChannelMaxLength {
		return true
	}
	s.env.Refused(observe.LimitChannelLength, ch)
	return false
}

func (s *Session) reserve(ch string, req *protocol.SubscribeRequest) *Subscription {
	b := &Subscription{s: s, channel: ch, state: subAsking, terms: &plain[0][0], setup: s.newSetup()}
	b.setup.subscribing.Request = req
	b.at.Form = s.via.Form
	s.subs.Add(b)
	return b
}

// newSetup returns an empty setup, which has six times the size of a subscription: the last one on the loop if that is free.
func (s *Session) newSetup() *setup {
	shared := s.env.Scratch()
	left := shared.setup
	if left == nil {
		return new(setup)
	}
	shared.setup = nil
	return left
}

// recycleSetup gives up the setup after the reply.
func (s *Session) recycleSetup(b *Subscription) {
	left := b.setup
	b.setup = nil
	if b.state == subLive {
		*left = setup{}
		s.env.Scratch().setup = left
	}
}

// remove undoes reserve, and answers the unsubscribe commands that wait.
func (s *Session) remove(b *Subscription) {
	b.state = subEnded
	s.subs.Remove(b)
	if b.setup == nil {
		return
	}
	waiting := b.setup.unsubscribers
	b.setup = nil
	for _, id := range waiting {
		s.finish(id, nil, protocol.Reply{Unsubscribe: &protocol.UnsubscribeResult{}})
	}
}

func (s *Session) afterSubscribing(e *effect.Subscribing) effect.Effect {
	b := e.Ref.(*Subscription)
	err := e.Err
	if err == nil {
		b.clientRefresh = e.ClientRefresh
		if err = b.accept(&e.Options, e.Feed, b.setup.subscribing.Request); err != nil {
			s.env.Explain(commandRefused, b.channel, err)
		}
	}
	if err != nil {
		closeFeed(e.Feed)
		s.finish(e.ID, err, protocol.Reply{})
		s.remove(b)
		return nil
	}
	if e.Options.Map != nil {
		return s.catchUp(b, e.ID)
	}
	return s.attach(b, e.ID)
}

func (s *Session) attach(b *Subscription, id uint32) effect.Effect {
	e := b.setup.attach.Only(b.establish(b.setup.subscribing.Request))
	e.ID, e.Outlives = id, s.leaving()
	return e
}

func (s *Session) serverSubscription(ch string, o *channel.SubscribeOptions, req *protocol.SubscribeRequest) (*effect.AttachItem, error) {
	if req.Delta != "" && req.Delta != deltaFossil {
		return nil, protocol.DisconnectBadRequest
	}
	b := s.reserve(ch, req)
	b.serverSide = true
	opts := *o
	opts.AllowCompaction, opts.AllowTagsFilter = false, false
	if s.via.Brief {
		opts.Presence, opts.EmitJoinLeave, opts.PushJoinLeave = false, false, false
	}
	r := *req
	r.Tf = nil // a client cannot filter a subscription of the server
	if err := b.accept(&opts, nil, &r); err != nil {
		return nil, err
	}
	return b.establish(&r), nil
}

func (b *Subscription) accept(o *channel.SubscribeOptions, feed channel.Feed, req *protocol.SubscribeRequest) error {
	s := b.s
	if err := typeRefusal(o.Type(), req.Type, b.serverSide); err != nil {
		return err
	}
	b.setup.opts = o
	b.presence, b.pushJoinLeave, b.source = o.Presence, o.PushJoinLeave, o.Source
	t := terms{ChanInfo: o.ChanInfo, ExpireAt: s.capExpiry(channel.ToUnix(o.ExpireAt)), Feed: feed, PresenceMaps: o.PresenceMaps, Token: o.Token, rights: o.Rights, needs: o.Needs}
	if s.past(t.ExpireAt) {
		return errSubExpired
	}
	if err := t.SetFilters(o, req.Tf); err != nil {
		return err
	}
	b.terms = t.Shared()
	b.at.Positioned = o.Positioned || o.Recoverable
	if m := o.Map; m != nil {
		b.at.Positioned, b.at.Keyed = !m.Ephemeral, true
	} else if o.Poll != nil {
		b.at.Positioned, o.Recoverable, o.AllowCompaction = false, false, false
	}
	if o.Recoverable && s.via.Bookmarks > 0 {
		b.nameInBookmarks(req)
	}
	if req.Delta == deltaFossil && o.AllowDelta && (o.Map == nil || !o.Map.Ephemeral) {
		b.at.Form |= hub.Escaped
	}
	return nil
}

// establish starts buffering and adds the subscription to the hub.
func (b *Subscription) establish(req *protocol.SubscribeRequest) *effect.AttachItem {
	s, o, strategy := b.s, b.setup.opts, recovery.For(b.setup.opts)
	item := &b.setup.item
	item.Channel, item.Positioned, item.Ref = b.channel, b.at.Positioned, b
	if recovery.Recovers(o, b.setup.subscribing.Request.Recover) {
		r := b.recoveryRequest(req)
		if item.HistoryFilter = strategy.Query(r); strategy.Latest() {
			item.Latest = &r.Since
		}
	}
	item.MetaTTL, item.Fragile = o.HistoryMetaTTL, o.Map != nil && o.Map.Ephemeral
	item.Resumes = b.setup.catchup != nil && b.setup.catchup.Resumes(b.setup.subscribing.Request)
	if o.Presence {
		item.Info = b.info()
	}
	if maps := o.PresenceMaps; len(maps) > 0 {
		item.Appears = &effect.Appearance{Info: b.info(), Maps: maps}
	}
	b.state = subAttaching
	s.env.Join(b)
	if o.Poll != nil {
		b.trackKeys(o.Poll)
	}
	if ch := b.membership.Channel(); ch != "" {
		b.channel, item.Channel = ch, ch // all subscriptions share the hub's text
	}
	return item
}

func attaching(it *effect.AttachItem) *Subscription { return it.Ref.(*Subscription) }

func (s *Session) afterAttach(e *effect.Attach) effect.Effect {
	for _, it := range e.Items {
		if it.Err == nil {
			attaching(it).state = subAttached // must be detached from now on
		}
	}
	switch {
	case e.Connect != nil:
		s.afterConnectAttach(e)
	case e.ID == 0:
		return s.afterServerAttach(e.Items[0])
	default:
		return s.afterCommandAttach(e)
	}
	return nil
}

func (s *Session) afterCommandAttach(e *effect.Attach) effect.Effect {
	it := e.Items[0]
	b := attaching(it)
	if it.Err != nil {
		closeFeed(b.terms.Feed)
		s.leaveHub(b)
		err := effect.Answer(it.Err)
		if b.setup.catchup != nil && !errors.Is(err, protocol.ErrorUnrecoverablePosition) {
			err = protocol.ErrorInternal
		}
		s.finish(e.ID, err, protocol.Reply{})
		s.remove(b)
		return nil
	}
	if c := b.setup.catchup; c != nil && c.Ephemeral() {
		// The entries are read from now on, and contain all earlier changes, lost ones included.
		c.lost, b.setup.buffer, b.state = false, nil, subReadingAttached
		return s.advance(b, e.ID, b.setup.subscribing.Request)
	}
	return s.replyLive(b, e.ID, it)
}

func (s *Session) replyLive(b *Subscription, id uint32, it *effect.AttachItem) effect.Effect {
	result := &s.env.Scratch().subscribed
	defer result.Reset()
	res, err := b.recoverAlone(it, result)
	if err != nil {
		s.finish(id, err, protocol.Reply{})
		return s.detach(b, protocol.UnsubscribeServer, 0)
	}
	s.finish(id, nil, protocol.Reply{Subscribe: res})
	return b.goLive()
}

// ServerSubscribe makes a server-side subscription for a connected client, in place of one that it has.
func (s *Session) ServerSubscribe(ch string, o *channel.SubscribeOptions) error {
	if s.state != stateConnected {
		return nil
	}
	if !s.fits(ch) {
		return protocol.ErrorBadRequest
	}
	if s.past(s.expiry(channel.ToUnix(o.ExpireAt))) {
		return protocol.ErrorExpired
	}
	var since *channel.StreamPosition
	if b := s.subs.Get(ch); b != nil {
		if b.state != subLive {
			return nil // the client is just subscribing itself, which stands
		}
		if b.at.Positioned {
			// The new subscription begins where the old one ends, so nothing is lost.
			since = &channel.StreamPosition{Offset: b.at.Offset, Epoch: b.at.Epoch}
		}
		s.end(b, protocol.UnsubscribeServer)
	}
	if s.subs.Len() >= s.cfg.ChannelLimit {
		s.env.Refused(observe.LimitChannels, ch)
		s.Close(protocol.DisconnectChannelLimit)
		return nil
	}
	if o.RecoverSince != nil {
		since = o.RecoverSince
	}
	req := &protocol.SubscribeRequest{}
	if since != nil {
		req.Recover, req.Offset, req.Epoch = true, since.Offset, since.Epoch
	}
	item, err := s.serverSubscription(ch, o, req)
	if err != nil {
		s.remove(s.subs.Get(ch))
		return err
	}
	s.run(s.begin(attaching(item).setup.attach.Only(item)))
	return nil
}

func (s *Session) afterServerAttach(it *effect.AttachItem) effect.Effect {
	s.inflight--
	b := attaching(it)
	if it.Err != nil {
		s.leaveHub(b)
		s.remove(b)
		s.Close(protocol.DisconnectServerError)
		return nil
	}
	res, err := b.recoverAlone(it, new(subscribeResult))
	if err != nil {
		s.fail(0, err)
		return nil
	}
	if b.replacesLost(res) {
		s.Close(protocol.DisconnectInsufficientState) // the push cannot tell the client that publications are lost
		return nil
	}
	// The push has no field for publications, so they follow it. Meanwhile the position is the client's, for bookmarks.
	// Clients drop publications up to the position of the push, so it is before the first one.
	top, pubs, begin := b.at.Offset, res.Publications, res.Offset
	if len(pubs) > 0 {
		b.at.Offset = max(pubs[0].Offset, 1) - 1
		if res.Recovered {
			begin = min(begin, b.at.Offset)
		}
	}
	s.reply(protocol.Reply{Push: &protocol.Push{Channel: b.channel, Subscribe: &protocol.Subscribe{
		Recoverable: res.Recoverable, Positioned: res.Positioned, Epoch: b.at.Epoch, Offset: begin, Data: res.Data,
	}}})
	for i, p := range pubs {
		b.at.Offset = p.Offset
		if i == len(pubs)-1 {
			b.at.Offset = top
		}
		s.reply(protocol.Reply{Push: &protocol.Push{Channel: b.channel, Pub: p}})
	}
	return b.goLive()
}

// replacesLost reports whether the client had a subscription in place of this one, and publications since its position are
// lost. A stream whose offset is 0 has lost none, whatever its epoch.
func (b *Subscription) replacesLost(res *protocol.SubscribeResult) bool {
	old := b.setup.subscribing.Request
	return old.Recover && b.setup.opts.RecoverSince == nil && b.at.Positioned && recovery.For(b.setup.opts).Gapless() &&
		!res.Recovered && (old.Offset != b.at.Offset || old.Epoch != b.at.Epoch && old.Offset > 0)
}

// goLive delivers the buffered messages like live ones, which leaves out those that the reply has.
func (b *Subscription) goLive() (next effect.Effect) {
	s := b.s
	if s.state == stateClosed {
		return nil
	}
	setup, counts := b.setup, s.env.Counts()
	b.state = subLive
	counts.Subscribed(s, b.channel)
	s.env.Note(inspect.Subscribed, b.channel, 0, int(b.source), inspect.By(b.serverSide))
	b.at.Confirm(s.cfg.Rounds.Now())
	for _, m := range setup.buffer {
		if b.state == subLive {
			d := &hub.Delivery{Message: m}
			b.Deliver(d)
			counts.Delivered(d)
		}
	}
	if b.state != subLive {
		return nil
	}
	if setup.opts.EmitJoinLeave {
		b.joined = true
		s.env.Do(&effect.Join{Channel: b.channel, Info: b.info()})
	}
	switch feed := b.terms.Feed; {
	case setup.ended != nil:
		next = s.endAsAsked(b)
	case setup.catchup != nil && setup.catchup.lost:
		b.insufficientState("", "")
	case feed != nil:
		s.env.Feed(b, feed)
	}
	s.recycleSetup(b)
	return next
}

// result fills r but for the fields of recovery.
func (b *Subscription) result(r *protocol.SubscribeResult, it *effect.AttachItem) {
	o := b.setup.opts
	*r = protocol.SubscribeResult{
		Recoverable:     o.Recoverable || o.Map != nil && !o.Map.Ephemeral,
		Positioned:      b.at.Positioned,
		Data:            o.Data,
		Delta:           b.at.Form&hub.Escaped != 0,
		Type:            o.Type(),
		PublishDebounce: beat.Milliseconds(o.PublishDebounce),
	}
	if b.terms.Keys != nil {
		r.Epoch = b.terms.Keys.Begin(b.at.Form)
	}
	if b.clientRefresh {
		r.Expires, r.TTL = b.s.remaining(b.terms.ExpireAt)
	}
	if b.setup.subscribing.Request.Flag&flagCompaction != 0 && o.AllowCompaction && b.s.compacts && it.ChannelID > 0 {
		b.at.Form |= hub.Compact
		r.ID = it.ChannelID
	}
}

// Window is how long the hub holds back messages. It is called within Env.Join.
func (b *Subscription) Window() hub.Window {
	o := b.setup.opts
	return hub.Window{Delay: o.BatchMaxDelay, Size: o.BatchMaxSize, Latest: o.BatchFlushLatest}
}
