package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gyrohq/gyro/client/internal/backoff"
	"github.com/gyrohq/gyro/protocol"
)

const (
	refreshTrack   = 1
	refreshUntrack = 2
)

// PollOptions of a Poll.
type PollOptions struct {
	// SubscribeOptions without Since, GetState, Positioned, Recoverable, JoinLeave and Filter, which shared poll does not
	// have.
	SubscribeOptions
	// GetSignature returns the application's signature for keys in this order. It is called for keys that are tracked
	// without one, and when one has expired. ctx ends with the subscription.
	GetSignature func(ctx context.Context, channel string, keys []string) (string, error)
}

// Poll is a subscription to a channel of shared poll (docs/shared-poll.md): values of keys that the server fetches from
// the application. Client.NewPoll makes one. Values come as PublicationEvents with Key and Version. After a GapEvent,
// Untrack and Track fetch the values of now.
type Poll struct{ *Subscription }

// NewPoll returns a subscription of shared poll. It fails if there is a subscription to the channel.
func (c *Client) NewPoll(channel string, o *PollOptions) (*Poll, error) {
	if o == nil {
		o = new(PollOptions)
	}
	if o.Since != nil || o.GetState != nil || o.Positioned || o.Recoverable || o.JoinLeave || o.Filter != nil {
		return nil, fmt.Errorf("client: shared poll %q: Since, GetState, Positioned, Recoverable, JoinLeave and Filter are not for shared poll", channel)
	}
	s, err := c.newSubscription(channel, &o.SubscribeOptions, typeSharedPoll)
	if err != nil {
		return nil, err
	}
	s.tracked = &tracked{sign: o.GetSignature, versions: make(map[string]uint64), wanted: make(map[string]*batch)}
	return &Poll{s}, nil
}

// tracked are the keys of shared poll. The client's lock protects them.
type tracked struct {
	sign     func(ctx context.Context, channel string, keys []string) (string, error)
	epoch    string
	batches  []*batch
	wanted   map[string]*batch // by key
	versions map[string]uint64
}

// batch has the keys of a signature, in its order.
type batch struct {
	keys      []string
	signature string
	failed    int
	expired   bool // its signature was refused as expired just now
}

var errNoSignature = errors.New("client: keys need a signature, or PollOptions.GetSignature")

// Track asks for the values of keys, signed by the application together and in this order; for an empty signature
// GetSignature is called. It does not wait: an ErrorEvent tells if the server refuses.
func (p *Poll) Track(keys []string, signature string) error {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	t := p.tracked
	if signature == "" && t.sign == nil {
		return errNoSignature
	}
	b := &batch{keys: slices.Clone(keys), signature: signature}
	for _, key := range b.keys {
		t.wanted[key] = b
	}
	t.batches = append(t.batches, b)
	t.tidy()
	if l := p.c.link; l != nil && p.live {
		p.track(l, b)
		l.flush()
	}
	return nil
}

// Untrack ends the interest in keys, and forgets their versions.
func (p *Poll) Untrack(keys []string) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	for _, key := range keys {
		p.tracked.forget(key)
	}
	p.tracked.tidy()
	if l := p.c.link; l != nil && p.live {
		cmd := &protocol.Command{SubRefresh: &protocol.SubRefreshRequest{Channel: p.channel, Type: refreshUntrack, Untrack: slices.Clone(keys)}}
		l.ask(cmd, func() {}, func(*protocol.Reply) {})
		l.flush()
	}
}

func (t *tracked) forget(key string) {
	delete(t.wanted, key)
	delete(t.versions, key)
}

func (t *tracked) tidy() {
	t.batches = slices.DeleteFunc(t.batches, func(b *batch) bool {
		return !slices.ContainsFunc(b.keys, func(key string) bool { return t.wanted[key] == b })
	})
}

func (s *Subscription) pollSubscribed(l *link, r *protocol.SubscribeResult) {
	t := s.tracked
	if t.epoch != r.Epoch {
		t.epoch = r.Epoch
		clear(t.versions)
		s.bases = nil
	}
	s.live, s.delta = true, r.Delta
	s.queues.Push(SubscribedEvent{Channel: s.channel, Position: StreamPosition{Epoch: r.Epoch}, Data: r.Data})
	for _, b := range t.batches {
		s.track(l, b)
	}
}

func (s *Subscription) track(l *link, b *batch) {
	if b.signature == "" {
		go s.signed(l, s.try, b)
		return
	}
	t := s.tracked
	track := &protocol.TrackBatch{Signature: b.signature}
	var untrack []string
	for _, key := range b.keys {
		track.Items = append(track.Items, &protocol.KeyedItem{Key: key, Version: t.versions[key]})
		if t.wanted[key] == nil {
			untrack = append(untrack, key)
		}
	}
	try := s.try
	cmd := &protocol.Command{SubRefresh: &protocol.SubRefreshRequest{Channel: s.channel, Type: refreshTrack, Track: []*protocol.TrackBatch{track}, Untrack: untrack}}
	l.ask(cmd, func() { s.trackAgain(l, try, b, ErrTimeout) }, func(r *protocol.Reply) {
		switch {
		case s.try != try || !slices.Contains(t.batches, b):
		case r.Error != nil:
			s.trackRefused(l, try, b, r.Error)
		case r.SubRefresh != nil:
			s.trackAnswered(l, try, b, r.SubRefresh)
		}
	})
}

func (s *Subscription) signed(l *link, try int, b *batch) {
	signature, err := s.tracked.sign(l.life(), s.channel, slices.Clone(b.keys))
	s.prepared(l, try, func() {
		switch {
		case !slices.Contains(s.tracked.batches, b):
		case denied(signature, err):
			s.untracked(b, errSubToken.of(ErrUnauthorized))
		case err != nil:
			s.trackAgain(l, try, b, errSubToken.of(err))
		default:
			b.signature = signature
			s.track(l, b)
		}
	})
}

func (s *Subscription) trackAnswered(l *link, try int, b *batch, r *protocol.SubRefreshResult) {
	b.failed, b.expired = 0, false
	for _, p := range r.Items {
		if err := s.value(p); err != nil {
			s.misfit(err)
			return
		}
	}
	if r.Expires && s.tracked.sign != nil {
		l.after(seconds(r.TTL), func() {
			if s.try == try && slices.Contains(s.tracked.batches, b) {
				go s.signed(l, try, b)
			}
		})
	}
}

func (s *Subscription) trackRefused(l *link, try int, b *batch, e *Error) {
	expired := e.Code == protocol.ErrorTokenExpired.Code
	if expired {
		b.signature = ""
	}
	switch {
	case expired && s.tracked.sign == nil || !expired && !temporary(e):
		s.untracked(b, e)
	case expired && !b.expired:
		b.expired = true
		s.track(l, b)
	default:
		s.trackAgain(l, try, b, e)
	}
}

func (s *Subscription) untracked(b *batch, e *Error) {
	for _, key := range b.keys {
		if s.tracked.wanted[key] == b {
			s.tracked.forget(key)
		}
	}
	s.tracked.tidy()
	s.queues.Push(errorEvent(s.channel, e))
}

const (
	minTrackDelay = time.Second
	maxTrackDelay = 15 * time.Second
)

func (s *Subscription) trackAgain(l *link, try int, b *batch, e *Error) {
	if s.try != try {
		return
	}
	s.queues.Push(errorEvent(s.channel, e))
	l.after(backoff.Pause(minTrackDelay, maxTrackDelay, &b.failed, s.c.random), func() {
		if s.try == try && slices.Contains(s.tracked.batches, b) {
			s.track(l, b)
		}
	})
}

func (s *Subscription) value(p *protocol.Publication) error {
	t := s.tracked
	if t.wanted[p.Key] == nil || p.Version > 0 && p.Version <= t.versions[p.Key] {
		return nil
	}
	data, err := s.payload(p)
	if err != nil {
		return err
	}
	t.versions[p.Key] = p.Version
	if p.Removed {
		t.forget(p.Key)
		t.tidy()
	}
	s.queues.Push(PublicationEvent{s.handed(p, data)})
	return nil
}
