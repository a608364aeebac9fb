package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
)

// A failover, or a restart of a server that does not write to disk at once, can lose the newest publications of a
// stream. So can a server whose data go back while it runs (see losses.Marks). Then the stream gives out offsets a
// second time under the same epoch, and subscribers would take the new publications for duplicates. A stream that lacks
// publications, or holds others, gets another epoch, which ends all positions in it. Losses are found in three ways.
//
// Calls that publish or read tell the script the known position. If the stream has not reached a known offset, or gives
// it out again, the script renews the epoch at once, without a further round trip.
//
// A receiver gets an offset a second time. Until the stream is verified, it delivers publications of that epoch under
// another one, so that subscribers do not take them for continuous.
//
// When a server may hold other data than before (servers.Client.Generation), the node verifies each stream before it
// reads anything else: with the publications that it delivered last and that were acknowledged to it last. So losses are
// also found in channels without publishers.

type verification struct {
	generation atomic.Uint64 // of the data that were verified

	mu      sync.Mutex
	running chan struct{} // closed when the verification under way ends; nil without one
	err     error         // of the last verification
}

var errNeverVerified = errors.New("the server is being replaced again and again")

// readVerified calls read again if the server was replaced meanwhile: a verification since may have ended the epoch of
// the answer.
func (b *Broker) readVerified(ctx context.Context, s *shard, read func() error) error {
	const attempts = 3
	for range attempts {
		if err := b.verify(ctx, s); err != nil {
			return err
		}
		before := s.verification.generation.Load()
		if err := read(); err != nil || s.client.Generation() == before {
			return err
		}
	}
	return fmt.Errorf("%s: %w", s.client.Name(), errNeverVerified)
}

// verifyBeforeSubscribing closes the connection if it fails.
func (b *Broker) verifyBeforeSubscribing(ctx context.Context, r *receiver, raw net.Conn) error {
	s := r.shard
	// The connection for commands may be broken, too, without having noticed.
	err := s.client.Explain(s.client.Do(ctx, s.client.B().Ping().Build()).Error())
	if err == nil {
		_ = r.mark(ctx) // watch reports failures
		err = b.verify(ctx, s)
	}
	if err != nil {
		raw.Close()
	}
	return err
}

// verify returns when each stream of the shard holds the delivered publications, or has another epoch.
func (b *Broker) verify(ctx context.Context, s *shard) error {
	for !s.isVerified() {
		running := b.startVerification(s)
		select {
		case <-running:
		case <-ctx.Done():
			return fmt.Errorf("%s: streams are being verified: %w", s.client.Name(), ctx.Err())
		}
		s.verification.mu.Lock()
		err := s.verification.err
		s.verification.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// startVerification returns a channel that is closed at the end of the verification.
func (b *Broker) startVerification(s *shard) <-chan struct{} {
	s.verification.mu.Lock()
	defer s.verification.mu.Unlock()
	if s.verification.running != nil {
		return s.verification.running
	}
	running := make(chan struct{})
	if b.lifetime.Err() != nil {
		s.verification.err = errClosed
		close(running)
		return running
	}
	s.verification.running = running
	b.background.Go(func() {
		var err error
		for err == nil && !s.isVerified() {
			generation := s.client.Generation()
			if err = b.verifyStreams(b.lifetime, s); err == nil {
				s.verification.generation.Store(generation)
			}
		}
		s.verification.mu.Lock()
		defer s.verification.mu.Unlock()
		s.verification.running, s.verification.err = nil, err
		close(running)
	})
	return running
}

func (b *Broker) verifyStreams(ctx context.Context, s *shard) error {
	for _, r := range b.receivers[s.index] {
		_ = r.mark(ctx) // watch reports failures
	}
	// With proof of a loss, a publication that cannot be verified counts as lost.
	rolledBack := s.rolledBack.Swap(false)
	all := s.acked.Candidates()
	for _, r := range b.receivers[s.index] {
		all = append(all, r.delivered()...)
	}
	verifier := losses.Verifier{Client: s.client, Names: &s.names, Kinds: b.kinds, RolledBack: rolledBack}
	for some := range slices.Chunk(all, servers.MaxPipeline) {
		lost, moved, err := verifier.Verify(ctx, some)
		if err != nil {
			if rolledBack {
				s.rolledBack.Store(true)
			}
			return err
		}
		if len(lost) > 0 {
			b.engine.cfg.Logger.Warn("redis lost publications that were delivered or acknowledged; streams have a new epoch",
				"part", s.client.Name(), "channels", len(channelsOf(lost)), "channel", lost[0].Channel)
		}
		b.report(append(lost, moved...))
	}
	return nil
}

func (r *receiver) delivered() []losses.Candidate {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []losses.Candidate
	for _, sub := range r.channels.All {
		if c, ok := sub.Candidate(); ok {
			list = append(list, c)
		}
	}
	return list
}

func channelsOf(candidates []losses.Candidate) map[string]bool {
	channels := make(map[string]bool, len(candidates))
	for i := range candidates {
		channels[candidates[i].Channel] = true
	}
	return channels
}

func (b *Broker) report(candidates []losses.Candidate) {
	if len(candidates) == 0 {
		return
	}
	channels := channelsOf(candidates)
	b.handler.HandleLoss(func(ch string) bool { return channels[ch] })
}
