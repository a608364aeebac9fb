package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/bench/internal/proc"
)

// Emulation is a load of unsubscribe commands, which do nothing, by emulation requests; the replies come by HTTP
// streams. The URL of Target is the endpoint http_stream; its Transport is ignored.
type Emulation struct {
	Target
	Streams  int // clients, each with one request at a time
	Messages int // requests of each client
}

// Run executes the scenario, as Fanout.Run.
func (e Emulation) Run(ctx context.Context) (*Report, error) {
	e.Transport = "http_stream"
	err := errors.Join(
		e.Target.validate(true),
		bounds("conns", e.Streams, 1, maxClients), bounds("msgs", e.Messages, 1, maxMessages),
	)
	if err != nil {
		return nil, err
	}
	r, err := newRun(ctx, &e.Target, 1, 0, e.Streams)
	if err != nil {
		return nil, err
	}
	return r.execute("emulation", (&emulation{Emulation: &e, latencies: shared{h: newHistogram()}}).steps)
}

type emulation struct {
	*Emulation
	latencies shared // of requests
	replies   atomic.Uint64
}

func (e *emulation) steps(r *run, rep *Report) error {
	for _, c := range r.publishers {
		c.answered = e.receiver(r, c)
	}
	if err := r.connectPublishers(); err != nil {
		return err
	}
	before, err := proc.Read(e.PID)
	if err != nil {
		return err
	}
	r.enter("sending")
	start := time.Now()
	for _, c := range r.publishers {
		r.gone.Go(func() {
			if err := e.send(c); err != nil {
				r.fail(fmt.Errorf("client %d: %w", c.index, err))
			}
		})
	}
	r.gone.Wait()
	n := uint64(e.Streams * e.Messages)
	r.enter("waiting for replies")
	if err := r.await(n, e.replies.Load); err != nil {
		return err
	}
	took := time.Since(start)
	rep.Emulation = &EmulationResult{
		Requests: n, Replies: e.replies.Load(), Lost: n - e.replies.Load(),
		Seconds: seconds(took), PerSecond: perSecond(n, took), Latency: e.latencies.latency(),
	}
	rep.Emulation.Server, err = r.since(before, n, took)
	return err
}

// receiver handles a client's replies, which must come in the order of its commands.
func (e *emulation) receiver(r *run, c *client) func(*protocol.Reply) {
	next := firstPublishID
	return func(reply *protocol.Reply) {
		switch {
		case reply.Error != nil:
			r.fail(fmt.Errorf("client %d: error %w", c.index, reply.Error))
		case reply.ID != next:
			r.fail(fmt.Errorf("client %d: reply to command %d instead of %d", c.index, reply.ID, next))
		default:
			next++
			e.replies.Add(1)
		}
	}
}

func (e *emulation) send(c *client) error {
	for i := range uint32(e.Messages) {
		start := time.Now()
		cmd := &protocol.Command{ID: firstPublishID + i, Unsubscribe: &protocol.UnsubscribeRequest{Channel: e.Channel}}
		if err := c.send([]*protocol.Command{cmd}); err != nil {
			return err
		}
		e.latencies.record(time.Since(start))
	}
	return nil
}
