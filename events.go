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

// Handlers of the application for the commands of its clients. Without a handler, clients get error 108.
//
// Handlers may block: only the client's own connection waits. They are called for one client in the order of its
// commands (but see Config.Concurrency), for different clients concurrently.
//
// ctx has the values of ConnectReply.Context. It does not end with the connection, because commands that a client
// sent before it went are still executed, without an answer; Client.Context does. ctx ends 5 s after the last
// connection of a shutdown. The ctx of Unsubscribed and Disconnected has at least 5 s left, to write to a database.
//
// Results of a handler are checked. Payloads that JSON connections could not read (see Config.Binary), and options
// that contradict each other or the channel (Config.Channel), are logged, and the client gets error 100.
//
// An error may be (or wrap) an Error, which is the reply, or a Disconnect, which closes the connection, or a pointer
// to one. Any other error is logged and the client gets error 100, also for a nil *Error. A code that is not from 100
// to 1999 in an Error, or from 3000 to 4999 in a Disconnect, is logged and replaced by error 100 or disconnect 3004.
// A one-way client, which gets no replies, is disconnected with the code for the error.
type Handlers struct {
	// Connecting authenticates a client. ctx has the values of the HTTP request; it ends with the connection, unless the
	// client sent commands behind the connect. Without this handler, a connection has the credentials of SetCredentials.
	Connecting func(ctx context.Context, e ConnectEvent) (ConnectReply, error)
	// Connected runs after the connect reply was queued.
	Connected func(ctx context.Context, c *Client)
	// Subscribe decides on a subscription.
	Subscribe func(ctx context.Context, c *Client, e SubscribeEvent) (SubscribeReply, error)
	// Unsubscribed runs after the end of a subscription, but not for one that Subscribe allowed and that never began, nor
	// for the subscriptions of a connect that failed: Connected runs first.
	// Disconnected runs after all calls of Unsubscribed.
	Unsubscribed func(ctx context.Context, c *Client, e UnsubscribeEvent)
	// Publish decides on a publication, and may publish it itself.
	Publish func(ctx context.Context, c *Client, e PublishEvent) (PublishReply, error)
	// MapChange decides on a client's change of a map.
	MapChange func(ctx context.Context, c *Client, e MapChangeEvent) (MapChangeReply, error)
	// Presence and PresenceStats decide on a request, which the presence manager answers unless they do.
	Presence      func(ctx context.Context, c *Client, e PresenceEvent) (PresenceReply, error)
	PresenceStats func(ctx context.Context, c *Client, e PresenceEvent) (PresenceStatsReply, error)
	// History decides on a request, which the broker answers unless it does.
	History func(ctx context.Context, c *Client, e HistoryEvent) (HistoryReply, error)
	// CacheEmpty may publish into a channel without publications, for clients that recover by RecoverCache, unless their
	// position is the top, or read history. Then the node reads the stream once more. There is one call per channel at a
	// time, and all clients share its outcome for a second. An error is the answer to them. ctx has no values; it ends
	// when no client waits any more. Without this handler, they get nothing.
	CacheEmpty func(ctx context.Context, e CacheEmptyEvent) (CacheEmptyReply, error)
	// RPC answers a call. For JSON clients the reply must be JSON; nil is an empty reply.
	RPC func(ctx context.Context, c *Client, e RPCEvent) ([]byte, error)
	// Message takes a message without an answer. Errors other than a Disconnect are logged.
	Message func(ctx context.Context, c *Client, data []byte) error
	// Refresh prolongs a connection: when the client has sent a new token (client-side refresh), or else at the time of
	// expiration (server-side).
	Refresh func(ctx context.Context, c *Client, e RefreshEvent) (RefreshReply, error)
	// SubRefresh does the same for a subscription.
	SubRefresh func(ctx context.Context, c *Client, e SubRefreshEvent) (SubRefreshReply, error)
	// Survey answers a Cluster.Survey of any node. ctx ends when that node no longer waits. An error is logged, and
	// becomes SurveyInternal. Up to 128 calls run at a time. Without this handler, the answer is SurveyUnknownOp.
	Survey func(ctx context.Context, e SurveyEvent) (SurveyReply, error)
	// Disconnected runs last, if Connected ran.
	Disconnected func(ctx context.Context, c *Client, e DisconnectEvent)
}

// ErrWouldBlock is for a handler that was called inline and cannot decide without blocking: see Config.InlineHandlers.
var ErrWouldBlock = client.ErrWouldBlock

// ConnectEvent is a client that wants to connect.
type ConnectEvent struct {
	ClientID string
	// Inline: see Config.InlineHandlers.
	Inline bool
	// Token and the rest are as the client sent them, unverified.
	Token   string
	Data    []byte
	Name    string
	Version string
	Headers map[string]string
	// Subs are channels that the client named, which may be any, with the positions of earlier server-side
	// subscriptions.
	Subs      map[string]*protocol.SubscribeRequest
	Transport TransportInfo

	repeated func(channel string) bool
}

// Repeats reports whether the client names a channel of Subs because the server gave it a position there: in an event of
// SSE, which a browser sends back without a choice, or in the answer to a long poll. A channel that exists no more is
// not the client's mistake then.
func (e ConnectEvent) Repeats(channel string) bool { return e.repeated != nil && e.repeated(channel) }

// TransportInfo describes a client's connection.
type TransportInfo struct {
	// Name of the transport, such as "websocket".
	Name     string
	Encoding Encoding
	// RemoteAddr may be a load balancer's.
	RemoteAddr string
	// Mode is which way messages go.
	Mode transport.Mode

	header func() http.Header
}

// Header of the HTTP request, made anew by each call; nil outside of the Connecting handler.
func (t TransportInfo) Header() http.Header {
	if t.header == nil {
		return nil
	}
	return t.header()
}

// Credentials identify the user of a client.
type Credentials struct {
	// UserID is empty for an anonymous user.
	UserID string
	// ExpireAt is when the connection expires, in whole seconds, 365 days from now at most; zero: never.
	ExpireAt time.Time
	// Info goes with publications, presence, joins and leaves of the client: JSON, unless Config.Binary is set.
	Info []byte
	// Meta is for the application, by Client.Meta. No client sees it.
	Meta []byte
	// Token for Inspector.Connections; nil: none is known.
	Token *channel.Token
	// Capabilities become the Rights in events of the client. The node itself decides nothing by them; nil: none.
	Capabilities *channel.Capabilities
}

type credentialsKey struct{}

// SetCredentials returns a context for HTTP middleware that authenticates requests: a client that connects under it has
// these credentials, and its later handlers the values of the context, unless the Connecting handler gives others.
func SetCredentials(ctx context.Context, c *Credentials) context.Context {
	return context.WithValue(ctx, credentialsKey{}, c)
}

// GetCredentials returns the credentials of SetCredentials in Connecting and, unless that gave another
// ConnectReply.Context, in later handlers; nil if there are none. They must not be modified, and stay when the client's
// change: Client.UserID, Client.Info and Client.Meta are the latest.
func GetCredentials(ctx context.Context) *Credentials {
	c, _ := ctx.Value(credentialsKey{}).(*Credentials)
	return c
}

// ConnectReply accepts a client.
type ConnectReply struct {
	// Context has the values for later handlers and for Client.Context. If it is nil, these are the values of the
	// request's context if its middleware called SetCredentials, and else none. A program without SetCredentials that
	// wants the values of the request returns the handler's context; one that wants none returns
	// context.Background().
	//
	// All that can be reached from the context stays in memory with the connection: about 550 bytes for the context
	// of a request, and the values of middleware, but not the request. They must stay valid after the request.
	Context context.Context
	// Labels are for inspect.Filter, the flight recorder and metrics.Config.ClientLabels; later handlers read them by
	// inspect.Labels. Clients do not see them.
	Labels map[string]string
	// Credentials of the client. If nil, the credentials of SetCredentials count; without any, the client is
	// disconnected with 3501.
	Credentials *Credentials
	// Data goes with the connect result.
	Data []byte
	// Subscriptions of the server for the client, made at once.
	Subscriptions map[string]SubscribeOptions
	// Ignored tells the log and the flight recorder which channels of ConnectEvent.Subs the client does not get, and
	// why.
	Ignored map[string]error
	// ClientSideRefresh asks the client for a new token before the connection expires; otherwise the Refresh handler is
	// called then.
	ClientSideRefresh bool
}

// SubscribeEvent is a client that wants to subscribe.
type SubscribeEvent struct {
	Channel string
	// Inline: see Config.InlineHandlers.
	Inline bool
	Token  string
	Data   []byte
	// Positioned, Recoverable and JoinLeave are wishes of the client.
	Positioned, Recoverable, JoinLeave bool
	// Type is channel.TypeStream, a channel.MapKind, or channel.TypeSharedPoll.
	Type int32
	// Rights of the client on the channel, by its Capabilities.
	Rights channel.Rights
}

// SubscribeReply accepts a subscription.
type SubscribeReply struct {
	Options SubscribeOptions
	// ClientSideRefresh asks the client for a new token before the subscription expires; otherwise the SubRefresh
	// handler is called.
	ClientSideRefresh bool
	// Feed, if not nil, sends publications to this subscription alone.
	Feed Feed
}

// UnsubscribeEvent is a subscription that ended.
type UnsubscribeEvent struct {
	Channel string
	// Unsubscribe has code 0 if the client unsubscribed, 1 if its connection ended.
	Unsubscribe Unsubscribe
	ServerSide  bool
}

// PublishEvent is a client that wants to publish.
type PublishEvent struct {
	Channel string
	Data    []byte
	// Info as subscribers will see it.
	Info       *ClientInfo
	Subscribed bool
	// Rights of the client on the channel, by its Capabilities and by its subscription.
	Rights channel.Rights
	// Feed of the client's subscription, or nil.
	Feed Feed
}

// PublishReply accepts a publication.
type PublishReply struct {
	// Options of the publication; the node fills in Info.
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
	// Info as subscribers will see it.
	Info       *ClientInfo
	Subscribed bool
	// Rights of the client on the channel, by its Capabilities and by its subscription.
	Rights channel.Rights
}

// MapChangeReply accepts a change of a map.
type MapChangeReply struct {
	Options channel.MapOptions
	// Key replaces the client's key if it is not empty, Data the payload if it is not nil.
	Key  string
	Data []byte
	// Info replaces the client's if it is not nil. Tags and Version go with the entry.
	Info    *ClientInfo
	Tags    map[string]string
	Version uint64
}

// PresenceEvent is the request of a client for the clients in a channel.
type PresenceEvent struct {
	Channel    string
	Subscribed bool
	// Rights of the client on the channel, by its Capabilities and by its subscription.
	Rights channel.Rights
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
	// Rights of the client on the channel, by its Capabilities and by its subscription.
	Rights channel.Rights
	// HistoryFilter is within Config.HistoryLimit.
	HistoryFilter
}

// HistoryReply allows the request.
type HistoryReply struct {
	// History is sent as it is. Nil: the broker answers.
	History *History
}

// CacheEmptyEvent is a stream without publications.
type CacheEmptyEvent struct {
	Channel string
	// Inline: see Config.InlineHandlers. The node asks so before it looks whether the stream is empty.
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
	// Info, Meta, Token and Capabilities replace the client's present values if they are not nil. New Capabilities end
	// subscriptions that need rights which they do not give: see SubscribeOptions.Needs.
	Info, Meta   []byte
	Token        *channel.Token
	Capabilities *channel.Capabilities
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
	// ServerTagsFilter, Token and Rights replace the present values of the subscription if they are not nil.
	ServerTagsFilter *FilterNode
	Token            *channel.Token
	Rights           *channel.Rights
}

// DisconnectEvent is a connection that ended.
type DisconnectEvent struct {
	Disconnect Disconnect
}

// SurveyEvent is a Cluster.Survey of a node of the cluster.
type SurveyEvent struct {
	Op   string
	Data []byte
	// Node is the UID of the node that asks.
	Node string
}

// SurveyReply is a node's answer to a survey.
type SurveyReply struct {
	// Code is SurveyOK or another Survey code; codes from 100 on are the application's. With SurveyInternal and
	// SurveyInvalid, Data may be a text.
	Code uint32
	// Data of the answer: at most 16 MiB.
	Data []byte
}
