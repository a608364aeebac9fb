package gyro

import (
	"context"
	"errors"
	"fmt"

	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Codes of SurveyReply. The application may have others.
const (
	SurveyOK       uint32 = cluster.CodeOK
	SurveyInternal uint32 = cluster.CodeInternal
	SurveyInvalid  uint32 = cluster.CodeInvalid
	// SurveyUnknownOp is the answer to an unknown question, or without a Survey handler.
	SurveyUnknownOp uint32 = cluster.CodeUnknownOp
)

var (
	// ErrUnknownNode tells that a survey was for a node that is not in the cluster.
	ErrUnknownNode = cluster.ErrUnknownNode
	// ErrNoAnswer names nodes that have not answered a survey, or confirmed an operation.
	ErrNoAnswer = cluster.ErrNoAnswer
)

// Info describes the nodes of the cluster, this one first. What it tells of others is
// what they told last: they do so every 3 s. A node that was killed is listed for 7 to
// 16 s more, one that was shut down is not.
func (n *Node) Info(ctx context.Context) ([]NodeInfo, error) {
	self, err := n.member.Info(ctx)
	if err != nil {
		return nil, err
	}
	infos := []NodeInfo{NodeInfo(self)}
	for _, o := range n.cluster.Nodes() {
		infos = append(infos, NodeInfo(o))
	}
	return infos, nil
}

// Survey asks every node of the cluster, this one included, or just the one with the
// UID node if that is not empty, and returns the replies of their Survey handlers by
// UID when each node that is known has replied or left. If ctx (without a deadline:
// 10 s) ends earlier, or a node has been silent for 7 to 45 s, the replies so far come
// with ErrNoAnswer. An unknown UID is ErrUnknownNode.
//
// The name op must not be "channels" or begin with "centrifuge_". data and the data of
// a reply have at most 16 MiB, or what the controller carries if that is less; a reply
// that is too long arrives as SurveyInternal. A node has at most 64 surveys under way,
// more wait, and answers at most 128 of others.
func (n *Node) Survey(ctx context.Context, op string, data []byte, node string) (map[string]SurveyReply, error) {
	if cluster.Reserved(op) {
		return nil, fmt.Errorf("gyro: survey: the name %q is reserved", op)
	}
	answers, err := n.cluster.Survey(ctx, op, data, node)
	replies := make(map[string]SurveyReply, len(answers))
	for uid, a := range answers {
		replies[uid] = SurveyReply(a)
	}
	return replies, err
}

// maxEmulation is the most data that Emulate takes, in bytes. As many may wait for a client.
const maxEmulation = defaultPendingSize

// Emulate implements transport.Emulator: a transport calls it with the commands of a client
// whose connection may be that of any node. If ctx has no deadline, it takes 10 s at most.
// More than 1 MiB of data is protocol.ErrorLimitExceeded. A node passes at most 256 calls
// at a time on to others, more wait, and serves 1,024 of others.
func (n *Node) Emulate(ctx context.Context, node, session string, data []byte) error {
	if len(data) > maxEmulation {
		return fmt.Errorf("gyro: emulation: %d bytes of data are more than %d: %w", len(data), maxEmulation, protocol.ErrorLimitExceeded)
	}
	if node == n.uid {
		ctx, cancel := context.WithTimeout(ctx, cluster.Timeout)
		defer cancel()
		return n.clients.Emulate(ctx, session, data)
	}
	err := n.cluster.Relay(ctx, node, session, data)
	if errors.Is(err, ErrUnknownNode) {
		return fmt.Errorf("%w: %w", transport.ErrUnknownNode, err)
	}
	return err
}

var _ transport.Emulator = (*Node)(nil)

// answer answers the survey of a node.
func (n *Node) answer(ctx context.Context, from, op string, data []byte) (cluster.Answer, error) {
	h := n.cfg.Handlers.Survey
	if h == nil {
		return cluster.Answer{Code: cluster.CodeUnknownOp}, nil
	}
	reply, err := h(ctx, SurveyEvent{Op: op, Data: data, Node: from})
	return cluster.Answer(reply), err
}

// Channels returns the channels with subscribers in the cluster, and the number of
// these, as far as their names match a glob pattern (server-api.md 6.11; at most 1,024
// bytes); the empty one matches all. A malformed pattern is
// ErrorBadRequest. It is a Survey: the error names the nodes that are missing, and there
// is no partial result. The names and numbers of a node have at most 16 MiB,
// or what the controller carries.
func (n *Node) Channels(ctx context.Context, pattern string) (map[string]int, error) {
	return n.cluster.Channels(ctx, pattern)
}
