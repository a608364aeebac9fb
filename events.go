package gyro

import (
	"context"
	"net/http"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Handlers of the application for the commands of its clients. A nil handler means that the feature is not available:
// clients get error 108.
//
// Handlers may block: only the client's own connection waits for them. The node calls them
// for one client one after the other, in the order of its commands (unless
// Config.Concurrency allows more), and for different clients concurrently.
//
// ctx has the values of ConnectReply.Context. It does not end with the connection, because the node still executes the
// commands that a client sent before it went, although the client gets no answer. A handler that wants to stop then
// looks at Client.Context. ctx ends 5 s after the last connection of a shutdown. The ctx of Unsubscribed and
// Disconnected has at least 5 s left when they are called, so that they can write to a database.
//
// The node checks the results of a handler. Payloads that clients with JSON connections could not read (see
// Config.Binary), and options that contradict each other or the options of the channel (Config.Channel), are an error
// that is logged, and the client gets error 100.
//
// An error may be (or wrap) an Error, which is the reply to the command, or a Disconnect, which closes the connection;
// a pointer to one is the same. Any other error is logged and the client gets error 100, also for a nil *Error that was
// returned as an error. A code that is not from 100 to 1999 in an Error, or from 3000 to 4999 in a Disconnect, is
// logged as well, and replaced by error 100 or disconnect 3004. A one-way client, which gets no replies, is
// disconnected with the code that corresponds to the error.
type Handlers struct {
	// Connecting authenticates a client. ctx is the context of the HTTP request that opened the connection, with the
	// values of its middleware; it ends with the connection, unless the client sent commands behind the connect.
	// Without this handler, a connection has the credentials that SetCredentials put into ctx.
	Connecting func(ctx context.Context, e ConnectEvent) (ConnectReply, error)
	// Connected runs after the connect reply was queued.
	Connected func(ctx context.Context, c *Client)
	// Subscribe decides on a subscription.
	Subscribe func(ctx context.Context, c *Client, e SubscribeEvent) (SubscribeReply, error)
	// Unsubscribed runs after a subscription ended for any reason. It does not run for a subscription that Subscribe
	// allowed and that never began, because the engine failed or the client had gone. Disconnected runs after all calls
	// of Unsubscribed.
	Unsubscribed func(ctx context.Context, c *Client, e UnsubscribeEvent)
	// Publish decides on a publication and may publish it itself.
	Publish func(ctx context.Context, c *Client, e PublishEvent) (PublishReply, error)
	// MapChange decides on a client's change of a map: a new value of a key, or its removal.
	MapChange func(ctx context.Context, c *Client, e MapChangeEvent) (MapChangeReply, error)
	// Presence and PresenceStats decide on a request and may answer it themselves;
	// otherwise the presence manager answers.
	Presence      func(ctx context.Context, c *Client, e PresenceEvent) (PresenceReply, error)
	PresenceStats func(ctx context.Context, c *Client, e PresenceEvent) (PresenceStatsReply, error)
	// History decides on a request and may answer it itself; otherwise the broker answers.
	History func(ctx context.Context, c *Client, e HistoryEvent) (HistoryReply, error)
	// CacheEmpty may publish into a channel whose stream has no publication, for clients that need one: clients that
	// recover by RecoverCache, unless their position is the top, and clients that read history. If the handler has
	// published, the node reads the stream once more. There is one call per channel at a time, and its outcome counts
	// for a second: all clients that need it share it. An error is the answer to them. ctx has no values; it ends when
	// none of the clients waits any more. Without this handler, they get nothing.
	CacheEmpty func(ctx context.Context, e CacheEmptyEvent) (CacheEmptyReply, error)
	// RPC answers a call. For JSON clients the reply must be JSON; nil is an empty reply.
	RPC func(ctx context.Context, c *Client, e RPCEvent) ([]byte, error)
	// Message takes a message that needs no answer. Errors other than a Disconnect are
	// logged.
	Message func(ctx context.Context, c *Client, data []byte) error
	// Refresh prolongs a connection that expires. It is called when the client has sent a
	// new token (client-side refresh), or else at the time of expiration (server-side).
	Refresh func(ctx context.Context, c *Client, e RefreshEvent) (RefreshReply, error)
	// SubRefresh does the same for a subscription that expires.
	SubRefresh func(ctx context.Context, c *Client, e SubRefreshEvent) (SubRefreshReply, error)
	// Survey answers a Cluster.Survey of any node of the cluster. ctx ends when that node
	// no longer waits for the answer. An error is logged, and becomes SurveyInternal. Up to
	// 128 calls run at a time. Without this handler, nodes answer SurveyUnknownOp.
	Survey func(ctx context.Context, e SurveyEvent) (SurveyReply, error)
	// Disconnected runs last, if Connected ran.
	Disconnected func(ctx context.Context, c *Client, e DisconnectEvent)
}

// ErrWouldBlock is returned by a handler that was called inline and cannot decide without
// blocking: see Config.InlineHandlers.
var ErrWouldBlock = client.ErrWouldBlock

// ConnectEvent is a client that wants to connect.
type ConnectEvent struct {
	// ClientID is the ID that the client will have.
	ClientID string
	// Inline is set if the handler must not block: see Config.InlineHandlers.
	Inline bool
	// Token, Data, Name, Version and Headers as the client sent them, unverified.
	Token   string
	Data    []byte
	Name    string
	Version string
	Headers map[string]string
	// Subs are the channels that the client named in its connect command, with the
	// positions of its earlier server-side subscriptions. The client may name any channel.
	Subs map[string]*protocol.SubscribeRequest
	// Transport describes the client's connection.
	Transport TransportInfo

	repeated func(channel string) bool
}

// Repeats reports whether the client names a channel of Subs because the server has given it a position
// there: in an event of SSE, which a browser sends back without a choice, or in the answer to a long poll.
// If there is no such channel any more, this is not the client's mistake.
func (e ConnectEvent) Repeats(channel string) bool { return e.repeated != nil && e.repeated(channel) }

// TransportInfo describes a client's connection.
type TransportInfo struct {
	// Name of the transport: "websocket", ….
	Name string
	// Encoding of the protocol.
	Encoding Encoding
	// RemoteAddr of the peer, which may be a load balancer.
	RemoteAddr string
	// Mode is which way messages go.
	Mode transport.Mode

	header func() http.Header
}

// Header of the HTTP request: in the Connecting handler only, elsewhere nil. Each call makes
// a new one.
func (t TransportInfo) Header() http.Header {
	if t.header == nil {
		return nil
	}
	return t.header()
}

// Credentials identify the user of a client.
type Credentials struct {
	// UserID; empty for an anonymous user.
	UserID string
	// ExpireAt is when the connection expires, cut to whole seconds; the zero time means
	// never. Later than 365 days from now counts as 365 days.
	ExpireAt time.Time
	// Info is attached to publications, presence, joins and leaves of the client: JSON,
	// unless Config.Binary is set.
	Info []byte
	// Meta is for the application itself, which gets it by Client.Meta. No client sees it.
	Meta []byte
	// Token of the client, for Inspector.Connections; nil: none that is known.
	Token *channel.Token
}

type credentialsKey struct{}

// SetCredentials returns a context for HTTP middleware that authenticates its
// requests: a client that connects under it has these credentials unless the
// Connecting handler gives others. Later handlers have the values of the request's context
// then, unless the Connecting handler gives others: see ConnectReply.Context.
func SetCredentials(ctx context.Context, c *Credentials) context.Context {
	return context.WithValue(ctx, credentialsKey{}, c)
}

// GetCredentials returns the credentials that SetCredentials put into the context of the
// request, in Connecting and, unless it gave another ConnectReply.Context, in later handlers.
// It returns nil if there are none. They must not be modified, and do not change when the
// client's do: Client.UserID, Client.Info and Client.Meta are the latest.
func GetCredentials(ctx context.Context) *Credentials {
	c, _ := ctx.Value(credentialsKey{}).(*Credentials)
	return c
}

// ConnectReply accepts a client.
type ConnectReply struct {
	// Context has the values for the client's later handlers, and for Client.Context. If it is
	// nil and the middleware of the request called SetCredentials, these are the values of the
	// request's context. If it did not, there are none. A program without SetCredentials that
	// wants the values of the request returns the context that the handler got; one that wants
	// none returns context.Background().
	//
	// All that can be reached from the context stays in memory as long as the connection: about
	// 550 bytes for the context of a request, and all that middleware put there, but not the
	// request. The values must stay valid after the request.
	Context context.Context
	// Labels are found by inspect.Filter, the flight recorder and metrics.Config.ClientLabels; later handlers
	// read them by inspect.Labels. Clients do not see them. The node adds them to the values of Context.
	Labels map[string]string
	// Credentials of the client. If nil, the credentials of SetCredentials count; if there are none either, the client
	// is disconnected with 3501.
	Credentials *Credentials
	// Data is handed to the client with the connect result.
	Data []byte
	// Subscriptions are made for the client at once (server-side).
	Subscriptions map[string]SubscribeOptions
	// Ignored tells the log and the flight recorder which channels of ConnectEvent.Subs the client does not get, and
	// why. If the handler returns an error too, the client is refused with it.
	Ignored map[string]error
	// ClientSideRefresh asks the client to send a new token before the connection
	// expires; otherwise the Refresh handler is called at that time.
	ClientSideRefresh bool
}

// SubscribeEvent is a client that wants to subscribe.
type SubscribeEvent struct {
	Channel string
	// Inline is set if the handler must not block: see Config.InlineHandlers.
	Inline bool
	// Token and Data as the client sent them.
	Token string
	Data  []byte
	// Positioned, Recoverable and JoinLeave are wishes of the client.
	Positioned, Recoverable, JoinLeave bool
	// Type of subscription that the client asks for: channel.TypeStream, a channel.MapKind, or
	// channel.TypeSharedPoll.
	Type int32
}

// SubscribeReply accepts a subscription.
type SubscribeReply struct {
	Options SubscribeOptions
	// ClientSideRefresh asks the client to send a new token before the
	// subscription expires; otherwise the SubRefresh handler is called.
	ClientSideRefresh bool
	// Feed, if not nil, sends publications to this subscription alone, in addition to the publications of the channel.
	Feed Feed
}

// UnsubscribeEvent is a subscription that ended.
type UnsubscribeEvent struct {
	Channel string
	// Unsubscribe is why it ended. The code is 0 if the client unsubscribed, 1 if its connection ended.
	Unsubscribe Unsubscribe
	// ServerSide subscriptions were made by the server.
	ServerSide bool
}

// PublishEvent is a client that wants to publish.
type PublishEvent struct {
	Channel string
	Data    []byte
	// Info of the client as subscribers will see it.
	Info *ClientInfo
	// Subscribed tells whether the client is subscribed to the channel.
	Subscribed bool
	// Feed of the client's subscription; nil if it has none.
	Feed Feed
}

// PublishReply accepts a publication.
type PublishReply struct {
	// Options of the publication; Info is filled in.
	Options PublishOptions
	// Data replaces the payload if not nil.
	Data []byte
	// Published is set if the handler published by itself.
	Published bool
}

// MapChangeEvent is a client that sets the entry Key of a map to Data, or removes it.
type MapChangeEvent struct {
	Channel string
	Key     string
	Data    []byte
	Removed bool
	// Info of the client as subscribers will see it.
	Info *ClientInfo
	// Subscribed tells whether the client is subscribed to the channel.
	Subscribed bool
}

// MapChangeReply accepts a change of a map.
type MapChangeReply struct {
	// Options of the change.
	Options channel.MapOptions
	// Key replaces the client's key if it is not empty, Data the payload if it is not nil.
	Key  string
	Data []byte
	// Info replaces the client's info if it is not nil. Tags and Version go with the entry.
	Info    *ClientInfo
	Tags    map[string]string
	Version uint64
}

// PresenceEvent is the request of a client for the clients in a channel.
type PresenceEvent struct {
	Channel    string
	Subscribed bool
}

// PresenceReply allows the request.
type PresenceReply struct {
	// Clients, by their IDs, are the answer. Nil: the presence manager answers.
	Clients map[string]*ClientInfo
}

// PresenceStatsReply allows the request.
type PresenceStatsReply struct {
	// Stats are the answer. Nil: the presence manager answers.
	Stats *PresenceStats
}

// HistoryEvent is a client that reads a stream.
type HistoryEvent struct {
	Channel    string
	Subscribed bool
	// HistoryFilter is the client's wish, within Config.HistoryLimit.
	HistoryFilter
}

// HistoryReply allows the request.
type HistoryReply struct {
	// History is the answer, which the node sends as it is. Nil: the broker answers.
	History *History
}

// CacheEmptyEvent is a stream without publications.
type CacheEmptyEvent struct {
	Channel string
	// Inline is set if the handler must not block: see Config.InlineHandlers. The node asks so
	// before it looks whether the stream is empty.
	Inline bool
}

// CacheEmptyReply answers it.
type CacheEmptyReply struct {
	// Populated is set if the stream has a publication now.
	Populated bool
}

// RPCEvent is a client's call.
type RPCEvent struct {
	Method string
	Data   []byte
}

// RefreshEvent is a connection to be prolonged.
type RefreshEvent struct {
	// ClientSide is set if the client has sent Token; otherwise the connection has expired.
	ClientSide bool
	Token      string
}

// RefreshReply prolongs or ends a connection.
type RefreshReply struct {
	// Expired closes the connection with 3005.
	Expired bool
	// ExpireAt is as in Credentials.
	ExpireAt time.Time
	// Info, Meta and Token replace the client's present values if they are not nil.
	Info, Meta []byte
	Token      *channel.Token
}

// SubRefreshEvent is a subscription to be prolonged.
type SubRefreshEvent struct {
	Channel    string
	ClientSide bool
	Token      string
}

// SubRefreshReply prolongs or ends a subscription.
type SubRefreshReply struct {
	// Expired ends the subscription.
	Expired bool
	// ExpireAt is as in SubscribeOptions.
	ExpireAt time.Time
	// Info replaces the channel info.
	Info []byte
	// ServerTagsFilter and Token replace the present values of the subscription if they are not nil.
	ServerTagsFilter *FilterNode
	Token            *channel.Token
}

// DisconnectEvent is a connection that ended.
type DisconnectEvent struct {
	Disconnect Disconnect
}

// SurveyEvent is a Cluster.Survey of a node of the cluster.
type SurveyEvent struct {
	// Op and Data are the arguments of Cluster.Survey.
	Op   string
	Data []byte
	// Node is the UID of the node that asks.
	Node string
}

// SurveyReply is a node's answer to a survey.
type SurveyReply struct {
	// Code is SurveyOK or another of the Survey codes. Codes from 100 on are the application's. With SurveyInternal and
	// SurveyInvalid, Data may be a text.
	Code uint32
	// Data of the answer: at most 16 MiB.
	Data []byte
}
