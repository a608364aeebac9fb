package gyro

import (
	"context"
	"errors"
	"fmt"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Codes of SurveyReply. The application may have others, from 100 on.
const (
	SurveyOK       uint32 = cluster.CodeOK
	SurveyInternal uint32 = cluster.CodeInternal
	SurveyInvalid  uint32 = cluster.CodeInvalid
	// SurveyUnknownOp is the code for an unknown SurveyEvent.Op, and of a node without a
	// Survey handler.
	SurveyUnknownOp uint32 = cluster.CodeUnknownOp
)

var (
	// ErrUnknownNode says that the node with the given UID is not in the cluster.
	ErrUnknownNode = cluster.ErrUnknownNode
	// ErrNoAnswer says that nodes have not answered a survey, or not confirmed an operation.
	// The text of the error that wraps it names them.
	ErrNoAnswer = cluster.ErrNoAnswer
)

// Info describes the nodes of the cluster, this one first. The other nodes report every 3 s, so their figures are up to
// 3 s old. A node that was killed is listed for 7 to 16 s more, one that was shut down is not.
func (n *Node) Info(ctx context.Context) ([]NodeInfo, error) {
	self, err := n.member.Info(ctx)
	if err != nil {
		return nil, err
	}
	return append([]NodeInfo{self}, n.cluster.Nodes()...), nil
}

// Load returns what waits for clients that do not take it in time, and how far the node's clock is off. It asks
// the loops, and returns the error of ctx if ctx ends first.
func (n *Node) Load(ctx context.Context) (observe.Load, error) { return n.clients.Load(ctx) }

// Survey calls the Survey handler of every node of the cluster, this one included, or only of the node with the UID
// node if that is not empty. It returns the replies by UID when each known node has replied or left. If ctx ends
// earlier (it gets a deadline of 10 s if it has none), or a node has been silent for 7 to 45 s, or is known to receive nothing
// (broker.ErrNoReceiver), Survey returns the replies so far with ErrNoAnswer. An unknown UID is ErrUnknownNode.
//
// op must not be empty, "channels", or begin with "centrifuge_" or "gyro_". data and the data of a reply have at most
// 16 MiB, or less if the controller carries less; a longer reply arrives as SurveyInternal. A node has at most 64
// surveys of its own under way, further ones wait, and it answers at most 128 surveys of other nodes at a time.
func (n *Node) Survey(ctx context.Context, op string, data []byte, node string) (map[string]SurveyReply, error) {
	if cluster.Reserved(op) {
		return nil, fmt.Errorf("gyro: survey: the name %q is reserved", op)
	}
	n.cfg.Observer.Totals.AddAction(observe.ActionSurvey, "", 1)
	answers, err := n.cluster.Survey(ctx, op, data, node)
	replies := make(map[string]SurveyReply, len(answers))
	for uid, a := range answers {
		replies[uid] = SurveyReply(a)
	}
	return replies, err
}

// Emulate implements transport.Emulator: a transport calls it with the commands of a client whose connection may be
// at any node of the cluster. Without a deadline in ctx, another node has 10 s to answer. More than 1 MiB of data is
// protocol.ErrorLimitExceeded. A node has at most 256 calls to other nodes under way, further ones wait, and it
// serves at most 1,024 calls of other nodes at a time.
func (n *Node) Emulate(ctx context.Context, node, session string, data []byte) error {
	if len(data) > pendingSize {
		return fmt.Errorf("gyro: emulation: %d bytes of data are more than %d: %w", len(data), pendingSize, protocol.ErrorLimitExceeded)
	}
	if node == n.uid { // without a deadline of its own, which costs a tenth of the call: loops answer
		return n.clients.Emulate(ctx, session, data)
	}
	err := n.cluster.Relay(ctx, node, session, data)
	if errors.Is(err, ErrUnknownNode) {
		return fmt.Errorf("%w: %w", transport.ErrUnknownNode, err)
	}
	return err
}

var _ transport.Emulator = (*Node)(nil)

// Tap watches a user or a channel on all nodes until ctx ends or see returns an error, which it returns. It calls see four times
// a second, also with nothing: first when all nodes that answer watch. observe.Tap has the bounds.
func (n *Node) Tap(ctx context.Context, t observe.Tap, see func([]observe.Tapped) error) error {
	return n.member.Watch(ctx, t, n.cluster, see)
}

// answer calls the Survey handler for the node with the UID from.
func (n *Node) answer(ctx context.Context, from, op string, data []byte) (cluster.Answer, error) {
	h := n.cfg.Handlers.Survey
	if h == nil {
		return cluster.Answer{Code: cluster.CodeUnknownOp}, nil
	}
	reply, err := h(ctx, SurveyEvent{Op: op, Data: data, Node: from})
	return cluster.Answer(reply), client.Sound(err)
}

// Channels returns the channels with subscribers in the cluster whose names match a glob pattern, and the number of
// subscribers of each. In a pattern of at most 1,024 bytes, * stands for any characters, ? for one, [a-c] for one of
// a class, {foo,bar} for alternatives; the empty pattern matches all names. A malformed pattern is ErrorBadRequest.
// Channels is a Survey with the same limits. If only nodes are missing that gave no sign of life for 7 s, or that receive
// nothing any more, Channels returns the channels of the others with an ErrNoAnswer that names the missing nodes. With any
// other error it returns no channels.
func (n *Node) Channels(ctx context.Context, pattern string) (map[string]int, error) {
	n.cfg.Observer.Totals.AddAction(observe.ActionSurvey, "", 1)
	return n.cluster.Channels(ctx, pattern)
}

// Connections returns the connections in the cluster that f selects. It is a Survey with the same
// limits; if nodes are missing, it returns the connections of the others with ErrNoAnswer.
func (n *Node) Connections(ctx context.Context, f inspect.Filter) (inspect.Connections, error) {
	n.cfg.Observer.Totals.AddAction(observe.ActionSurvey, "", 1)
	return n.member.Inspector.Connections(ctx, f)
}

// Snapshot calls see with all connections in the cluster that f selects, without a limit: page by page, from 8 nodes at
// a time, so that they are never in memory at once. It makes one call at a time. It returns the error of see; ErrNoAnswer if nodes have not answered to the
// end, after the pages of the others; and the first error of an expression. A node has 16 snapshots under way at most.
func (n *Node) Snapshot(ctx context.Context, f inspect.Filter, see func(inspect.Page) error) (failed string, err error) {
	return n.member.Inspector.Snapshot(ctx, f, see)
}

// Users calls see with the users of this node's connections, some hundreds at a time, and a user perhaps more than
// once; not with anonymous ones. It returns the error of see, or of ctx.
func (n *Node) Users(ctx context.Context, see func(users []string) error) error {
	return n.member.Users(ctx, see)
}

// Flight is like Connections for what happened of late to clients and channels: see Config.FlightRecorder.
func (n *Node) Flight(ctx context.Context, q inspect.Query) (inspect.Log, error) {
	n.cfg.Observer.Totals.AddAction(observe.ActionSurvey, "", 1)
	return n.member.Inspector.Flight(ctx, q)
}
