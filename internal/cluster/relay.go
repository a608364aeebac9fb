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
	// time; further ones wait. maxEmulating is how many requests of other nodes it serves at
	// a time; further ones get no answer. Each takes about a round trip.
	maxRelaying  = 256
	maxEmulating = 1024
)

// Relay has another node hand commands to its client that has the session ID, and waits until
// they are dispatched. If the node has no such client, the commands are dropped without an
// error. ctx and the errors are as with Survey.
func (c *Cluster) Relay(ctx context.Context, to, session string, data []byte) error {
	if to == "" {
		return fmt.Errorf("%w: %q", ErrUnknownNode, to)
	}
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

// dispatch hands on the commands of a survey that Relay made, before it returns, so that those of a
// client that come in order stay in order. finish waits until they are dispatched.
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
