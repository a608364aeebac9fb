package cluster

import (
	"context"
	"fmt"

	"github.com/gyrohq/gyro/internal/cluster/control"
)

const opEmulation = reservedOps + "emulation"

const (
	// maxRelaying is how many requests for clients of other nodes a node passes on at a time, maxRelayingTo how many for
	// one node, so that a slow node does not delay the others' requests; more wait. maxEmulating is how many requests of
	// other nodes a node serves at a time; more get no answer. Each takes about a round trip.
	maxRelaying   = 256
	maxRelayingTo = maxRelaying / 4
	maxEmulating  = 1024
)

// Relay has another node give commands to its client with a session ID, and waits until they are dispatched. Without
// such a client they are dropped without an error. ctx and the errors are as with Survey.
func (c *Cluster) Relay(ctx context.Context, to, session string, data []byte) error {
	if to == "" {
		return fmt.Errorf("%w: %q", ErrUnknownNode, to)
	}
	leave, err := c.acquireSlot(ctx, to)
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

// nodeSlots bound the requests to one node, while there are requests.
type nodeSlots struct {
	slots chan struct{}
	uses  int
}

// acquireSlot waits for room among the requests to a node, at most Timeout.
func (c *Cluster) acquireSlot(ctx context.Context, to string) (leave func(), err error) {
	c.mu.Lock()
	if _, known := c.registry.nodes[to]; !known {
		c.mu.Unlock()
		return func() {}, nil // survey returns the error
	}
	s := c.slots[to]
	if s == nil {
		s = &nodeSlots{slots: make(chan struct{}, maxRelayingTo)}
		c.slots[to] = s
	}
	s.uses++
	c.mu.Unlock()
	drop := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if s.uses--; s.uses == 0 {
			delete(c.slots, to)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots; drop() }, nil
	case <-ctx.Done():
		drop()
		return nil, fmt.Errorf("gyro: the commands waited for %d others to node %s: %w", maxRelayingTo, to, ctx.Err())
	}
}

// dispatch hands on the commands of Relay before it returns, which keeps the order of a client's commands. finish waits
// until they are dispatched.
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
