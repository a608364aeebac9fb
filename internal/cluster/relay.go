package cluster

import (
	"context"
	"fmt"

	"github.com/gyrohq/gyro/internal/cluster/control"
)

// opEmulation is the survey that Relay makes.
const opEmulation = reservedOps + "emulation"

const (
	// maxRelaying is how many requests for clients of other nodes a node passes on at a
	// time, maxRelayingTo how many of them for one node, so that a slow node does not delay the
	// requests for others; further ones wait. maxEmulating is how many requests of other nodes a
	// node serves at a time; further ones get no answer. Each takes about a round trip.
	maxRelaying   = 256
	maxRelayingTo = maxRelaying / 4
	maxEmulating  = 1024
)

// Relay asks another node to hand commands to its client that has the session ID, and waits until they are dispatched.
// If the node has no such client, the commands are dropped without an error. ctx and the errors are as with Survey.
func (c *Cluster) Relay(ctx context.Context, to, session string, data []byte) error {
	if to == "" {
		return fmt.Errorf("%w: %q", ErrUnknownNode, to)
	}
	leave, err := c.enterShare(ctx, to)
	if err != nil {
		return err
	}
	defer leave()
	req := control.Emulation{Session: session, Data: data}
	answers, err := c.survey(ctx, c.relaying, opEmulation, req.AppendProto(nil), to)
	if err != nil {
		return err
	}
	if a := answers[to]; a.Code != CodeOK {
		return fmt.Errorf("gyro: emulation by node %s: code %d: %.200q", to, a.Code, a.Data)
	}
	return nil
}

// share is the room for requests to one node. It is there while there are requests.
type share struct {
	room chan struct{}
	uses int
}

// enterShare waits for room among the requests to a node, at most Timeout. The caller must call leave.
func (c *Cluster) enterShare(ctx context.Context, to string) (leave func(), err error) {
	c.mu.Lock()
	if _, known := c.registry.nodes[to]; !known {
		c.mu.Unlock()
		return func() {}, nil // survey returns the error
	}
	s := c.shares[to]
	if s == nil {
		s = &share{room: make(chan struct{}, maxRelayingTo)}
		c.shares[to] = s
	}
	s.uses++
	c.mu.Unlock()
	drop := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if s.uses--; s.uses == 0 {
			delete(c.shares, to)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	select {
	case s.room <- struct{}{}:
		return func() { <-s.room; drop() }, nil
	case <-ctx.Done():
		drop()
		return nil, fmt.Errorf("gyro: the commands waited for %d others to node %s: %w", maxRelayingTo, to, ctx.Err())
	}
}

// dispatch hands on the commands of a survey that Relay made, before it returns, so that the commands of one client
// stay in order. finish waits until they are dispatched.
func (c *Cluster) dispatch(data []byte) (finish func(context.Context) Answer) {
	var req control.Emulation
	if err := req.UnmarshalProto(data); err != nil {
		return func(context.Context) Answer { return Answer{CodeInvalid, []byte(err.Error())} }
	}
	dispatched := c.cfg.Handler.Dispatch(req.Session, req.Data)
	return func(ctx context.Context) Answer {
		select {
		case <-dispatched:
			return Answer{}
		case <-ctx.Done():
			return failed(ctx.Err().Error())
		}
	}
}
