// Package effect has the work that a session starts and that may block: the handlers of the
// application, and calls of the engines.
package effect

import (
	"errors"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Effect is work that may block. A session passes it to session.Env.Do, and its owner executes it, which fills in the
// fields after "out". If it has the trait Completes, Session.Complete takes it back. ID and Ref are for the session
// alone.
type Effect interface {
	// Traits are the same for all effects of a type.
	Traits() Traits
	// Execute makes x do the effect. With inline it must not block: it returns false instead, and is called again
	// without inline.
	Execute(x Executor, inline bool) (done bool)
}

// Traits say how the work queue of a client schedules an effect.
type Traits uint8

const (
	// Completes: the session gets the effect back by Complete.
	Completes Traits = 1 << iota
	// Begins: the completion of the effect may start one that Continues.
	Begins
	// Continues: started by such a completion, the effect runs before all effects that wait.
	Continues
	// Concurrent effects of one client may run side by side (gyro.Config.Concurrency).
	Concurrent
	// Instant effects are tried inline first.
	Instant
)

// Has reports whether t has all of the traits.
func (t Traits) Has(traits Traits) bool { return t&traits == traits }

// Executor does the effects of a client. The results are those of Effect.Execute.
type Executor interface {
	Connecting(e *Connecting, inline bool) (done bool)
	Connected(inline bool) (done bool)
	Subscribing(e *Subscribing, inline bool) (done bool)
	Attach(e *Attach, inline bool) (done bool)
	Page(e *Page, inline bool) (done bool)
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
	Track(e *Track, inline bool) (done bool)
}

type (
	// Connecting asks the application to authenticate the client.
	Connecting struct {
		Request *protocol.ConnectRequest
		// out
		Identity Identity
		Labels   map[string]string
		Err      error

		ID uint32
	}

	// Standing is what a client is in a channel.
	Standing struct {
		Subscribed bool
		Rights     channel.Rights // that the subscription gives
	}

	// Connected tells the application that the client is there.
	Connected struct{}

	// Subscribing asks the application for a subscription.
	Subscribing struct {
		Request *protocol.SubscribeRequest
		// out
		Options       channel.SubscribeOptions
		ClientRefresh bool
		Feed          channel.Feed // also with an Err, to be closed
		Err           error

		ID  uint32
		Ref any
	}

	// Attach establishes subscriptions at the engines.
	Attach struct {
		Items []*AttachItem
		// Outlives is set if the client has gone and its earlier commands need the subscription. Otherwise the attach is
		// given up when the client goes.
		Outlives bool

		ID      uint32
		Connect *protocol.ConnectResult // the result of the connect command that waits for the subscriptions; nil: no connect command does
		one     [1]*AttachItem          // the memory of Items if there is one item
	}

	// Page reads a page of a map: of its entries, or of its changes.
	Page struct {
		Channel string
		channel.StateFilter
		Changes *channel.HistoryFilter // nil: the entries are read
		// out
		State   channel.State
		History channel.History
		Err     error

		ID  uint32
		Ref any
	}

	// Detach ends subscriptions at the engines.
	Detach struct {
		Items []DetachItem
		// out
		Err error

		ID uint32 // 0 if the client does not wait for it
	}

	// Undo ends subscriptions that were established after the end of the session.
	Undo struct {
		Items []DetachItem
	}

	// Join publishes that the client has come to a channel.
	Join struct {
		Channel string
		Info    *channel.ClientInfo
	}

	// Publish asks the application and publishes.
	Publish struct {
		Request *protocol.PublishRequest
		Info    *channel.ClientInfo
		Feed    channel.Feed // of the client's subscription; nil if there is none
		Standing
		Command
	}

	// Presence asks the application for the clients in a channel.
	Presence struct {
		Channel string
		Standing
		// out
		Clients map[string]*channel.ClientInfo
		Command
	}

	// PresenceStats asks the application how many clients are in a channel.
	PresenceStats struct {
		Channel string
		Standing
		// out
		channel.PresenceStats
		Command
	}

	// History asks the application for a part of the stream.
	History struct {
		Channel string
		Standing
		channel.HistoryFilter
		// out
		channel.History
		Command
	}

	// RPC calls the application.
	RPC struct {
		Request *protocol.RPCRequest
		// out
		Data []byte
		Command
	}

	// Message passes a message to the application.
	Message struct {
		Data    []byte
		Command // without a reply
	}

	// Refresh asks the application to prolong the connection.
	Refresh struct {
		Renewal
		// out
		Capabilities *channel.Capabilities // nil: they stay
	}

	// Track asks the application whether the client may track keys. Without keys, it only waits for the effects before
	// it.
	Track struct {
		Request *protocol.SubRefreshRequest
		Poll    *channel.SharedPoll
		// out
		ExpireAt []int64 // of the keys of each batch, Unix seconds; 0: never
		Err      error

		ID  uint32
		Ref any
	}

	// SubRefresh asks the application to prolong a subscription.
	SubRefresh struct {
		Channel string
		Renewal
		// out
		ServerTagsFilter *protocol.FilterNode
		Rights           *channel.Rights // nil: they stay

		Ref any
	}

	// Renew renews the client's presence in channels.
	Renew struct {
		Items []RenewItem
	}

	// Close ends all subscriptions and tells the application that the client has gone.
	Close struct {
		Disconnect protocol.Disconnect
		Items      []DetachItem
		Connected  bool

		one [1]DetachItem // the memory of Items if there is one item
	}
)

// Identity of a client that the application accepted.
type Identity struct {
	// Known is false without credentials.
	Known         bool
	User          string
	Info          []byte
	ExpireAt      int64
	Token         *channel.Token
	ClientRefresh bool
	Data          []byte
	Subs          map[string]channel.SubscribeOptions
}

// Unfilled is the error of a read if the application did not fill the empty stream.
type Unfilled struct{ Err error }

// Error implements error.
func (u *Unfilled) Error() string { return "the empty stream was not filled: " + u.Err.Error() }

// Unwrap returns the application's error: the answer to the client.
func (u *Unfilled) Unwrap() error { return u.Err }

// Answer is the answer to a client whose attach failed with err.
func Answer(err error) error {
	if u, ok := errors.AsType[*Unfilled](err); ok {
		return u.Err
	}
	if e, ok := errors.AsType[*protocol.Error](err); ok && e.Code != protocol.ErrorInternal.Code {
		return e
	}
	return protocol.DisconnectServerError
}

// Lacks reports whether the subscriber needs a publication and h has none.
func (it *AttachItem) Lacks(h channel.History) bool {
	return it.Latest != nil && len(h.Publications) == 0 && (it.Latest.Offset == 0 || *it.Latest != h.Top)
}

// Only makes item the only one of a, and returns a.
func (a *Attach) Only(item *AttachItem) *Attach {
	a.one[0] = item
	a.Items = a.one[:]
	return a
}

// AttachItem is one subscription to establish: at the broker, in the presence, then by a read of the stream. If a step
// fails, the steps before are undone.
type AttachItem struct {
	Channel string
	// Info is nil without presence.
	Info *channel.ClientInfo
	// Appears is nil without maps, as for nearly all subscriptions.
	Appears    *Appearance
	Positioned bool
	// Fragile is set if the channel has no stream and the subscriber must hear of losses.
	Fragile bool
	// Resumes is set for a subscriber that keeps the entries of a map: changes that are not in the stream are an error.
	Resumes bool
	channel.HistoryFilter
	// Latest is the position of a subscriber that recovers the latest publication; else nil. The application may fill
	// the stream for it.
	Latest *channel.StreamPosition
	// out
	ChannelID int64
	channel.History
	Err error

	Ref any
}

// Appearance is the entry of a client that is in a channel, and the maps that show it.
type Appearance struct {
	Info *channel.ClientInfo
	Maps []channel.PresenceMap
}

// DetachItem is one subscription to end: in the presence, by a leave, at the broker, and by the handler, in this order. The
// handler hears nothing of a client that has not connected.
type DetachItem struct {
	Channel    string
	Presence   bool
	Leave      bool
	ServerSide bool
	Connected  bool // the application was told that the client has connected
	Info       *channel.ClientInfo
	Feed       channel.Feed          // to be closed; nil if there is none
	Maps       []channel.PresenceMap // that the client disappears from
	Reason     protocol.Unsubscribe
}

// Add adds an item.
func (e *Close) Add(it DetachItem) {
	if e.Items == nil {
		e.Items = e.one[:0]
	}
	e.Items = append(e.Items, it)
}

// RenewItem is one presence to renew.
type RenewItem struct {
	Channel  string
	Info     *channel.ClientInfo
	Presence bool
	Maps     []channel.PresenceMap
}

func (*Connecting) Traits() Traits  { return Completes | Begins | Instant }
func (*Connected) Traits() Traits   { return Instant }
func (*Subscribing) Traits() Traits { return Completes | Begins | Instant }
func (*Attach) Traits() Traits      { return Completes | Begins | Continues | Instant }
func (*Page) Traits() Traits        { return Completes | Begins | Continues | Instant }
func (*Detach) Traits() Traits      { return Completes | Instant }
func (*Track) Traits() Traits       { return Completes | Instant }
func (*Undo) Traits() Traits        { return Continues | Instant }
func (*Join) Traits() Traits        { return 0 }
func (*Renew) Traits() Traits       { return Instant }
func (*Close) Traits() Traits       { return Instant }

func (e *Connecting) Execute(x Executor, inline bool) bool  { return x.Connecting(e, inline) }
func (e *Connected) Execute(x Executor, inline bool) bool   { return x.Connected(inline) }
func (e *Subscribing) Execute(x Executor, inline bool) bool { return x.Subscribing(e, inline) }
func (e *Attach) Execute(x Executor, inline bool) bool      { return x.Attach(e, inline) }
func (e *Page) Execute(x Executor, inline bool) bool        { return x.Page(e, inline) }
func (e *Detach) Execute(x Executor, inline bool) (done bool) {
	done, e.Err = x.Detach(e.Items, inline)
	return done
}
func (e *Undo) Execute(x Executor, inline bool) bool {
	done, _ := x.Detach(e.Items, inline) // Detach logs the error, and no client waits for it
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
func (e *Track) Execute(x Executor, inline bool) bool    { return x.Track(e, inline) }
func (e *Renew) Execute(x Executor, inline bool) bool    { return x.Renew(e.Items, inline) }
func (e *Close) Execute(x Executor, inline bool) bool    { return x.Close(e, inline) }

// Ask returns the request for the application.
func (e *Track) Ask(client, user string) *channel.TrackRequest {
	r := &channel.TrackRequest{Channel: e.Request.Channel, Client: client, User: user, Batches: make([]channel.TrackBatch, len(e.Request.Track))}
	for i, b := range e.Request.Track {
		keys := make([]string, len(b.Items))
		for j, it := range b.Items {
			keys[j] = it.Key
		}
		r.Batches[i] = channel.TrackBatch{Signature: b.Signature, Keys: keys}
	}
	return r
}

// Answer takes the answer of the application.
func (e *Track) Answer(r *channel.TrackRequest) {
	e.ExpireAt = make([]int64, len(e.Request.Track))
	for i := range e.ExpireAt {
		e.ExpireAt[i] = channel.ToUnix(r.Batches[i].ExpireAt)
	}
}

// Command is embedded in effects that do not change the session, so that they may overtake each other.
type Command struct {
	Err error // out
	ID  uint32
}

func (*Command) Traits() Traits { return Completes | Concurrent }

// Renewal is embedded in the effects that prolong.
type Renewal struct {
	ClientSide bool
	Token      string
	// out
	Expired  bool
	ExpireAt int64
	Info     []byte
	NewToken *channel.Token
	Err      error

	ID uint32
}

func (*Renewal) Traits() Traits { return Completes }
