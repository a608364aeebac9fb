package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Effect is work that may block: a handler of the application or a call of the
// broker. A session hands it to its Env and goes on; the Env has an Executor do it,
// which fills in the fields after "out", and gives it back by Session.Complete if it
// completes. Effects of one session are started in the order in which they were
// handed over.
type Effect interface {
	// Traits are the same for all effects of a type.
	Traits() Traits
	// Execute has x do the effect, and reports whether it is done. Inline it must not
	// block: if it would, it is not done, and executed again where it may.
	Execute(x Executor, inline bool) (done bool)
	// complete goes on with what was done.
	complete(s *Session)
}

// Traits say how a lane schedules an effect.
type Traits uint8

const (
	// Completes: the session waits for the effect; it gets it back by Complete.
	Completes Traits = 1 << iota
	// Begins: what Continues it follows its completion at once, before all that waits.
	Begins
	// Continues: see Begins.
	Continues
	// Concurrent effects may run side by side, if the application wants so. All others
	// run alone.
	Concurrent
	// Instant effects may turn out not to block, so they are tried inline.
	Instant
)

// Has tells whether t has all of the traits.
func (t Traits) Has(traits Traits) bool { return t&traits == traits }

// Executor does the effects of a client. What is Instant reports whether it is done:
// see Effect.Execute.
type Executor interface {
	Connecting(e *Connecting, inline bool) (done bool)
	Connected(inline bool) (done bool)
	Subscribing(e *Subscribing, inline bool) (done bool)
	Attach(e *Attach, inline bool) (done bool)
	Detach(items []DetachItem, inline bool) (done bool, err error)
	Renew(items []RenewItem, inline bool) (done bool)
	Close(e *Close, inline bool) (done bool)
	Join(e *Join)
	Publish(e *Publish)
	Presence(e *Presence)
	PresenceStats(e *PresenceStats)
	History(e *History)
	RPC(e *RPC)
	Message(e *Message)
	Refresh(e *Refresh)
	SubRefresh(e *SubRefresh)
}

type (
	// Connecting asks the application who the client is.
	Connecting struct {
		Request *protocol.ConnectRequest
		// out
		Identity Identity
		Err      error

		id uint32
	}

	// Connected tells the application that the client is there.
	Connected struct{ unawaited }

	// Subscribing asks the application for a subscription.
	Subscribing struct {
		Request *protocol.SubscribeRequest
		// out
		Options       channel.SubscribeOptions
		ClientRefresh bool
		Err           error

		id  uint32
		sub *Subscription
	}

	// Attach establishes subscriptions behind the hub.
	Attach struct {
		Items []*AttachItem
		// Outlives is set if the client has gone and what it sent behind needs the
		// subscription; else it is given up when the client goes.
		Outlives bool

		id      uint32
		kind    attachKind
		connect *protocol.ConnectResult // attachConnect: what the reply will be
		one     [1]*AttachItem          // what Items usually is
	}

	// Detach ends subscriptions behind the hub.
	Detach struct {
		Items []DetachItem
		// out
		Err error

		id uint32 // 0 if the client does not wait for it
	}

	// Undo ends subscriptions that were established when the session had ended.
	Undo struct {
		unawaited
		Items []DetachItem
	}

	// Join tells channels that the client came.
	Join struct {
		unawaited
		Channel string
		Info    *channel.ClientInfo
	}

	// Publish asks the application and publishes.
	Publish struct {
		Request    *protocol.PublishRequest
		Info       *channel.ClientInfo
		Subscribed bool
		command
	}

	// Presence asks the application and reads who is there.
	Presence struct {
		Channel    string
		Subscribed bool
		// out
		Clients map[string]*channel.ClientInfo
		command
	}

	// PresenceStats asks the application and reads how many are there.
	PresenceStats struct {
		Channel    string
		Subscribed bool
		// out
		channel.PresenceStats
		command
	}

	// History asks the application and reads the stream.
	History struct {
		Channel    string
		Subscribed bool
		channel.HistoryFilter
		// out
		channel.History
		command
	}

	// RPC calls the application.
	RPC struct {
		Request *protocol.RPCRequest
		// out
		Data []byte
		command
	}

	// Message hands a message to the application.
	Message struct {
		Data    []byte
		command // without a reply
	}

	// Refresh asks the application to prolong the connection.
	Refresh struct {
		ClientSide bool
		Token      string
		// out
		Expired  bool
		ExpireAt int64
		Info     []byte
		Err      error

		id uint32
	}

	// SubRefresh asks the application to prolong a subscription.
	SubRefresh struct {
		Channel    string
		ClientSide bool
		Token      string
		// out
		Expired          bool
		ExpireAt         int64
		Info             []byte
		ServerTagsFilter *protocol.FilterNode
		Err              error

		id  uint32
		sub *Subscription
	}

	// Renew keeps the client in the presence of channels.
	Renew struct {
		unawaited
		Items []RenewItem
	}

	// Close ends everything.
	Close struct {
		unawaited
		Disconnect protocol.Disconnect
		Items      []DetachItem
		// Connected tells whether the effect of this name was handed over.
		Connected bool
	}
)

// Identity of a client that the application accepted.
type Identity struct {
	// Known is false if there are no credentials at all.
	Known         bool
	User          string
	Info          []byte
	ExpireAt      int64
	ClientRefresh bool
	Data          []byte
	Subs          map[string]channel.SubscribeOptions
}

// attachKind says what waits for an attach.
type attachKind uint8

const (
	attachCommand attachKind = iota // a subscribe command
	attachConnect                   // the connect reply
	attachServer                    // a subscription made by the server meanwhile
)

// AttachItem is one subscription to establish: subscribe in the broker, add
// presence, read the stream, in this order; or leave no trace.
type AttachItem struct {
	Channel string
	// Info is set if the client is to appear in the presence.
	Info *channel.ClientInfo
	// Positioned is set if the attach has to read the stream.
	Positioned bool
	channel.HistoryFilter
	// out
	ChannelID int64
	channel.History
	Err error

	sub *Subscription
}

// DetachItem is one subscription to end: remove presence, publish leave,
// unsubscribe, tell the application.
type DetachItem struct {
	Channel    string
	Presence   bool
	Leave      bool
	Info       *channel.ClientInfo
	ServerSide bool
	Reason     protocol.Unsubscribe
}

// RenewItem is one presence to renew.
type RenewItem struct {
	Channel string
	Info    *channel.ClientInfo
}

func (*Connecting) Traits() Traits  { return Completes | Begins | Instant }
func (*Connected) Traits() Traits   { return Instant }
func (*Subscribing) Traits() Traits { return Completes | Begins | Instant }
func (*Attach) Traits() Traits      { return Completes | Begins | Continues | Instant }
func (*Detach) Traits() Traits      { return Completes | Instant }
func (*Undo) Traits() Traits        { return Continues | Instant }
func (*Join) Traits() Traits        { return 0 }
func (*Refresh) Traits() Traits     { return Completes }
func (*SubRefresh) Traits() Traits  { return Completes }
func (*Renew) Traits() Traits       { return Instant }
func (*Close) Traits() Traits       { return Instant }

func (e *Connecting) Execute(x Executor, inline bool) bool  { return x.Connecting(e, inline) }
func (e *Connected) Execute(x Executor, inline bool) bool   { return x.Connected(inline) }
func (e *Subscribing) Execute(x Executor, inline bool) bool { return x.Subscribing(e, inline) }
func (e *Attach) Execute(x Executor, inline bool) bool      { return x.Attach(e, inline) }
func (e *Detach) Execute(x Executor, inline bool) (done bool) {
	done, e.Err = x.Detach(e.Items, inline)
	return done
}
func (e *Undo) Execute(x Executor, inline bool) bool {
	done, _ := x.Detach(e.Items, inline) // logged there; nobody waits for an answer
	return done
}
func (e *Join) Execute(x Executor, _ bool) bool          { x.Join(e); return true }
func (e *Publish) Execute(x Executor, _ bool) bool       { x.Publish(e); return true }
func (e *Presence) Execute(x Executor, _ bool) bool      { x.Presence(e); return true }
func (e *PresenceStats) Execute(x Executor, _ bool) bool { x.PresenceStats(e); return true }
func (e *History) Execute(x Executor, _ bool) bool       { x.History(e); return true }
func (e *RPC) Execute(x Executor, _ bool) bool           { x.RPC(e); return true }
func (e *Message) Execute(x Executor, _ bool) bool       { x.Message(e); return true }
func (e *Refresh) Execute(x Executor, _ bool) bool       { x.Refresh(e); return true }
func (e *SubRefresh) Execute(x Executor, _ bool) bool    { x.SubRefresh(e); return true }
func (e *Renew) Execute(x Executor, inline bool) bool    { return x.Renew(e.Items, inline) }
func (e *Close) Execute(x Executor, inline bool) bool    { return x.Close(e, inline) }

// command is part of the effects of commands that change nothing in the session, so that
// they may overtake each other.
type command struct {
	Err error // out
	id  uint32
}

func (*command) Traits() Traits { return Completes | Concurrent }

// unawaited is part of the effects without Completes.
type unawaited struct{}

func (unawaited) complete(*Session) {}

func (e *Publish) complete(s *Session) {
	s.finish(e.id, e.Err, &protocol.Reply{Publish: &protocol.PublishResult{}})
}
func (e *PresenceStats) complete(s *Session) {
	s.finish(e.id, e.Err, &protocol.Reply{PresenceStats: &protocol.PresenceStatsResult{
		NumClients: uint32(e.Clients), NumUsers: uint32(e.Users)}})
}
func (e *RPC) complete(s *Session) {
	s.finish(e.id, e.Err, &protocol.Reply{RPC: &protocol.RPCResult{Data: e.Data}})
}
