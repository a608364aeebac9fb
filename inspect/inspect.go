// Package inspect has the answers of a node about its connections: their state, and the events of connections and
// channels (docs/flight-recorder.md). A *gyro.Node answers for all nodes of the cluster.
package inspect

import (
	"context"
	"errors"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

const (
	// DefaultLimit stands for a limit of 0.
	DefaultLimit, MaxLimit = 100, 1000
	// MaxChannels is how many subscriptions one node lists in an answer. Further ones, and further connections, are left
	// out.
	MaxChannels = 20_000
)

// Filter selects connections that match all fields that are not empty. Without User and Channel, each node looks at all
// of its connections, which takes its loops some milliseconds per 100,000.
type Filter struct {
	// Client is an ID, and Channel one that the connection is subscribed to.
	User, Client, Channel string
	// Labels are compared like the tags of a publication. nil: all connections.
	Labels *protocol.FilterNode
	// Expression is a condition in the language of gyro.Config.Expressions. With one, each node describes all
	// connections that the other fields select, in steps between which its loops do other work.
	Expression string
	// Limit is the most connections; 0 for DefaultLimit. More than MaxLimit is an error.
	Limit int
}

// Connections are the answer to a Filter.
type Connections struct {
	// List is ordered by age, the oldest first.
	List []Connection
	// More: connections, or subscriptions of a connection, were left out.
	More bool
	// Failed is the first error of Filter.Expression; empty if there was none.
	Failed string
}

// Connection is a client that has connected.
type Connection struct {
	// Client is its ID, Node the UID of its node.
	Client, User, Node string
	// Transport is a name, Protocol "json" or "protobuf".
	Transport, Protocol string
	// AppName and AppVersion are from the client's connect command, up to 64 bytes each. Both are empty if a loop of the
	// node has more than 4,096 different pairs of them.
	AppName, AppVersion string
	// Addr is the address of the peer; empty if the transport does not know it.
	Addr        string
	ConnectedAt time.Time // exact to a millisecond
	// Latency is between the last ping and its pong, in whole milliseconds; negative if there was none.
	Latency time.Duration
	// Queue is how many bytes wait for the client, Commands how many of its commands are in progress.
	Queue, Commands int
	// Labels are from gyro.ConnectReply, or from WithLabels.
	Labels map[string]string
	// Meta and Token are from the client's Credentials, or from a later RefreshReply.
	Meta  []byte
	Token *channel.Token
	// Channels are its established subscriptions.
	Channels map[string]Subscription
}

type Subscription struct {
	ServerSide bool
	Source     uint8
	// Positioned subscriptions follow a stream, to Offset and Epoch now.
	Positioned bool
	Offset     uint64
	Epoch      string
	// Token is from the SubscribeOptions, or from a later SubRefreshReply; nil if it is not known.
	Token *channel.Token
}

// ErrExpression says that Filter.Expression is wrong, or that the node evaluates none.
var ErrExpression = errors.New("expression")

// Condition is a compiled expression: it tells whether a connection is selected. An error counts as false; the caller
// gets it with the selected connections. One goroutine at a time calls it.
type Condition func(ctx context.Context, c *Connection) (bool, error)

// Page is a part of a snapshot: connections of one node.
type Page struct {
	Node, Name string // UID and name of the node
	// Connections are up to a few hundred, fewer if they have many subscriptions.
	Connections []Connection
	// Failed is the first error of Filter.Expression at the node until now; empty if there was none.
	Failed string
}

// Node is the answer of a node about itself.
type Node struct {
	// UID is random for each Node value.
	UID     string
	Name    string
	Version string
	// NumClients is the number of authenticated connections, NumUsers of their distinct users (all anonymous ones count
	// as one), NumSubs of their subscriptions, NumChannels of channels with a subscription.
	NumClients, NumUsers, NumSubs, NumChannels int
	// Uptime in whole seconds.
	Uptime time.Duration
	// Process is zero for nodes of a version that does not tell.
	Process Process
}

// Process has the resources of a node's process, measured every 3 s.
type Process struct {
	// CPU is in percent of one processor: two in full use are 200.
	CPU float64
	// RSS is the resident memory in bytes or, where the system does not tell it (it does on Linux), what the Go runtime
	// holds.
	RSS int64
}

type labels struct{}

// WithLabels returns a context for ConnectReply.Context that has labels of the client, which must not be modified.
func WithLabels(ctx context.Context, values map[string]string) context.Context {
	return context.WithValue(ctx, labels{}, values)
}

// Labels of the client that has a context; nil if there are none.
func Labels(ctx context.Context) map[string]string {
	values, _ := ctx.Value(labels{}).(map[string]string)
	return values
}
