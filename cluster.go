package gyro

import (
	"context"
	"errors"
	"fmt"

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
	// SurveyUnknownOp: the node does not know SurveyEvent.Op, or has no Survey handler.
	SurveyUnknownOp uint32 = cluster.CodeUnknownOp
)

var (
	// ErrUnknownNode says that no node of the cluster has the UID.
	ErrUnknownNode = cluster.ErrUnknownNode
	// ErrNoAnswer says that nodes have not answered a survey, or not confirmed an operation. The error that wraps it
	// names them.
	ErrNoAnswer = cluster.ErrNoAnswer
)

// Cluster asks the nodes of the cluster, this one included. Any goroutine may call it. Only the node implements Cluster;
// tests of programs may, too.
type Cluster interface {
	// Nodes describes the nodes, this one first. Figures of others are up to 3 s old. A node that was killed is listed
	// for 7 to 16 s more, one that was shut down is not.
	Nodes(ctx context.Context) ([]NodeInfo, error)
	// Survey calls the Survey handler of every node, or only of the node with the UID node if that is not empty. It
	// returns the replies by UID when each known node has replied or left. If ctx ends before (by default after 10
	// s), or a node has been silent for 7 to 45 s, or is known to receive nothing (broker.ErrNoReceiver), it returns
	// the replies so far with ErrNoAnswer. An unknown UID is ErrUnknownNode.
	//
	// op must not be empty, "channels", or begin with "centrifuge_" or "gyro_". data and the data of a reply have at
	// most 16 MiB, or less if the controller carries less; a longer reply arrives as SurveyInternal. A node has at
	// most 64 surveys of its own under way, further ones wait, and it answers at most 128 surveys of others at a
	// time.
	Survey(ctx context.Context, op string, data []byte, node string) (map[string]SurveyReply, error)
	// Channels returns the channels in the cluster that match a glob pattern, with their numbers of subscribers. In a
	// pattern of at most 1,024 bytes, * stands for any characters, ? for one, [a-c] for one of a class, {foo,bar} for
	// alternatives; the empty pattern matches all. A malformed pattern is ErrorBadRequest. Channels is a Survey with the
	// same limits. If only nodes are missing that gave no sign of life for 7 s, or that receive nothing any more, it
	// returns the channels of the others with ErrNoAnswer; with any other error none.
	Channels(ctx context.Context, pattern string) (map[string]int, error)
}

// Cluster returns the methods for all nodes of the cluster.
func (n *Node) Cluster() Cluster { return clusterOperations{n} }

type clusterOperations struct{ node *Node }

func (c clusterOperations) Nodes(ctx context.Context) ([]NodeInfo, error) {
	self, err := c.node.member.Info(ctx)
	if err != nil {
		return nil, err
	}
	return append([]NodeInfo{self}, c.node.cluster.Nodes()...), nil
}

func (c clusterOperations) Survey(ctx context.Context, op string, data []byte, node string) (map[string]SurveyReply, error) {
	if cluster.Reserved(op) {
		return nil, fmt.Errorf("gyro: survey: the name %q is reserved", op)
	}
	c.node.countSurvey()
	answers, err := c.node.cluster.Survey(ctx, op, data, node)
	replies := make(map[string]SurveyReply, len(answers))
	for uid, a := range answers {
		replies[uid] = SurveyReply(a)
	}
	return replies, err
}

func (c clusterOperations) Channels(ctx context.Context, pattern string) (map[string]int, error) {
	c.node.countSurvey()
	return c.node.cluster.Channels(ctx, pattern)
}

func (n *Node) countSurvey() { n.cfg.Observer.Totals.AddAction(observe.ActionSurvey, "", 1) }

func (n *Node) answer(ctx context.Context, from, op string, data []byte) (cluster.Answer, error) {
	h := n.cfg.Handlers.Survey
	if h == nil {
		return cluster.Answer{Code: cluster.CodeUnknownOp}, nil
	}
	reply, err := h(ctx, SurveyEvent{Op: op, Data: data, Node: from})
	return cluster.Answer(reply), client.Sound(err)
}

// Emulate implements transport.Emulator, for commands of a client whose connection may be at any node. Another node has
// 10 s to answer unless ctx has a deadline. More than 1 MiB of data is protocol.ErrorLimitExceeded. A node has at most
// 256 calls to others under way, further ones wait, and it serves at most 1,024 calls of others at a time.
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
