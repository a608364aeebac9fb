package session

import (
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Effect is work that may block: a handler of the application or a call of the
// broker. A session hands it to its Env and goes on; the Env does it, fills in
// the fields after "out", and gives it back by Session.Complete. Effects of one
// session are started in the order in which they were handed over.
type Effect interface{ effect() }

type (
	// Connecting asks the application who the client is.
	Connecting struct {
		Request *protocol.ConnectRequest
		// out
		Identity Identity
		Err      error

		id uint32
	}

	// Connected tells the application that the client is there. No completion.
	Connected struct{}

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

	// Detach ends subscriptions behind the hub. Completed only if the client waits
	// for it.
	Detach struct {
		Items []DetachItem
		// out
		Err error

		id uint32
	}

	// Join tells channels that the client came. No completion.
	Join struct {
		Channel string
		Info    *channel.ClientInfo
	}

	// Publish asks the application and publishes.
	Publish struct {
		Request    *protocol.PublishRequest
		Info       *channel.ClientInfo
		Subscribed bool
		// out
		Err error

		id uint32
	}

	// Presence asks the application and reads who is there.
	Presence struct {
		Channel    string
		Subscribed bool
		// out
		Clients map[string]*channel.ClientInfo
		Err     error

		id uint32
	}

	// PresenceStats asks the application and reads how many are there.
	PresenceStats struct {
		Channel    string
		Subscribed bool
		// out
		NumClients, NumUsers int
		Err                  error

		id uint32
	}

	// History asks the application and reads the stream.
	History struct {
		Channel    string
		Subscribed bool
		Limit      int
		Since      *channel.StreamPosition
		Reverse    bool
		// out
		Publications []*channel.Publication
		Top          channel.StreamPosition
		Err          error

		id uint32
	}

	// RPC calls the application.
	RPC struct {
		Request *protocol.RPCRequest
		// out
		Data []byte
		Err  error

		id uint32
	}

	// Message hands a message to the application.
	Message struct {
		Data []byte
		// out
		Err error
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

	// Renew keeps the client in the presence of channels. No completion.
	Renew struct{ Items []RenewItem }

	// Close ends everything. No completion.
	Close struct {
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

// Read says what an attach reads from the stream.
type Read uint8

const (
	ReadNothing Read = iota
	ReadTop
	// ReadSince reads forward from a position.
	ReadSince
	// ReadLatest reads backwards from the top.
	ReadLatest
)

// AttachItem is one subscription to establish: subscribe in the broker, add
// presence, read the stream, in this order; or leave no trace.
type AttachItem struct {
	Channel string
	// Info is set if presence is to be added.
	Info    *channel.ClientInfo
	Read    Read
	Since   uint64
	Limit   int // publications; < 0 for all
	MetaTTL time.Duration
	// out
	ChannelID    int64
	Top          channel.StreamPosition
	Publications []*channel.Publication
	Err          error

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

func (*Connecting) effect()    {}
func (*Connected) effect()     {}
func (*Subscribing) effect()   {}
func (*Attach) effect()        {}
func (*Detach) effect()        {}
func (*Join) effect()          {}
func (*Publish) effect()       {}
func (*Presence) effect()      {}
func (*PresenceStats) effect() {}
func (*History) effect()       {}
func (*RPC) effect()           {}
func (*Message) effect()       {}
func (*Refresh) effect()       {}
func (*SubRefresh) effect()    {}
func (*Renew) effect()         {}
func (*Close) effect()         {}
