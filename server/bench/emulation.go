package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/bench/internal/wire"
)

// Emulation is a load of commands that clients of HTTP streams send by emulation requests: an
// unsubscribe command each, which does nothing, and whose reply comes by the stream. The URL of its
// Target is that of the endpoint http_stream.
type Emulation struct {
	Target
	Endpoint string // for the requests, also that of another node: http or https
	Streams  int    // clients, each with one request at a time
	Messages int    // requests of each client
}

// Run executes the scenario, as Fanout.Run.
func (e Emulation) Run(ctx context.Context) (*Report, error) {
	err := errors.Join(
		e.Target.validate(false),
		validURL("url", e.URL, "http", "https"), validURL("endpoint", e.Endpoint, "http", "https"),
		bounds("conns", e.Streams, 1, maxClients), bounds("msgs", e.Messages, 1, maxMessages),
	)
	if err != nil {
		return nil, err
	}
	r, err := newRun(ctx, &e.Target, 1, 0, 0)
	if err != nil {
		return nil, err
	}
	return r.execute("emulation", (&emulation{Emulation: &e, latencies: shared{h: newHistogram()}}).steps)
}

// emulation is a run of the scenario.
type emulation struct {
	*Emulation
	latencies shared // of requests
	replies   atomic.Uint64
}

func (e *emulation) steps(r *run, rep *Report) error {
	transport := &http.Transport{TLSClientConfig: e.TLS, MaxIdleConnsPerHost: e.Streams, DisableCompression: true}
	defer transport.CloseIdleConnections()
	dialer := &wire.StreamDialer{HTTP: &http.Client{Transport: transport}, URL: e.URL, Emulation: e.Endpoint, Encoding: e.Encoding}
	r.enter("connecting")
	var streams []*wire.Stream
	for i := range e.Streams {
		token, err := e.token(i)
		if err != nil {
			return err
		}
		s, err := dialer.Open(r.ctx, &protocol.ConnectRequest{Token: token, Name: "bench"})
		if err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
		defer s.Close()
		streams = append(streams, s)
	}
	before, err := readUsage(e.PID)
	if err != nil {
		return err
	}
	r.enter("sending")
	start := time.Now()
	for i, s := range streams {
		fail := func(err error) {
			if err != nil {
				r.fail(fmt.Errorf("client %d: %w", i, err))
			}
		}
		r.others.Go(func() { fail(e.receive(s)) })
		r.gone.Go(func() { fail(e.send(r.ctx, s)) })
	}
	r.gone.Wait()
	n := uint64(e.Streams * e.Messages)
	e.await(r, n)
	took := time.Since(start)
	rep.Emulation = &EmulationResult{
		Requests: n, Replies: e.replies.Load(), Lost: n - e.replies.Load(),
		Seconds: seconds(took), PerSecond: perSecond(n, took), Latency: e.latencies.latency(),
	}
	if err := r.err(); err != nil {
		return err
	}
	rep.Emulation.Server, err = r.since(before, n, took)
	return err
}

// await waits until all replies have come, or none has come for Target.Drain.
func (e *emulation) await(r *run, want uint64) {
	r.enter("waiting for replies")
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	had, since := e.replies.Load(), time.Now()
	for had < want && time.Since(since) < e.Drain {
		select {
		case <-poll.C:
		case <-r.ctx.Done():
			return
		}
		if n := e.replies.Load(); n != had {
			had, since = n, time.Now()
		}
	}
}

// firstID is the ID of a client's first command after its connect command.
const firstID = 2

// receive reads the replies of a client, which have to come in the order of its commands.
func (e *emulation) receive(s *wire.Stream) error {
	for next := uint32(firstID); next < firstID+uint32(e.Messages); {
		var reply protocol.Reply
		switch err := s.Read(&reply); {
		case err != nil:
			return err
		case reply.ID == 0: // a ping of the server
		case reply.Error != nil:
			return reply.Error
		case reply.ID != next:
			return fmt.Errorf("reply to command %d instead of %d", reply.ID, next)
		default:
			next++
			e.replies.Add(1)
		}
	}
	return nil
}

// send sends the requests of a client.
func (e *emulation) send(ctx context.Context, s *wire.Stream) error {
	for i := range uint32(e.Messages) {
		start := time.Now()
		err := s.Send(ctx, &protocol.Command{ID: firstID + i, Unsubscribe: &protocol.UnsubscribeRequest{Channel: e.Channel}})
		if err != nil {
			return err
		}
		e.latencies.record(time.Since(start))
	}
	return nil
}
