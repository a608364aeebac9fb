package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/gyrohq/gyro/client/internal/eventqueue"
)

// SubscribeOptions of a Subscription.
type SubscribeOptions struct {
	// Token for the channel, and GetToken, as in Options. See docs/private-channels.md.
	Token    string
	GetToken func(ctx context.Context, channel string) (string, error)
	// Data for the application. GetData, if set, returns it anew before each attempt.
	Data    []byte
	GetData func(ctx context.Context, channel string) ([]byte, error)
	// Since is a position whose successors the client fetches when it subscribes first; nil: only later publications
	// come.
	Since *StreamPosition
	// GetState loads the application's state of the channel, and returns the position of that state. It is called before
	// the client subscribes first, and when the server has not kept all publications since. After an error the client
	// tries again.
	GetState func(ctx context.Context, channel string) (StreamPosition, error)
	// Positioned, Recoverable and JoinLeave ask for features that the server leaves to the client. SubscribedEvent has
	// the result.
	Positioned, Recoverable, JoinLeave bool
	// Delta asks for publications as differences to the one before, which the client puts together. It excludes Filter.
	Delta bool
	// Filter asks only for publications whose tags match.
	Filter *FilterNode
}

// Subscription to a channel. Client.NewSubscription makes one.
type Subscription struct {
	stream
	so   SubscribeOptions
	kind int32 // type in the protocol
	// The client's lock protects the following.
	state   SubscriptionState
	reason  Reason
	since   time.Time // when the state was entered
	changed chan struct{}
	failure error // of the last attempt since
	sent    bool  // the server has the subscribe command, so pushes may come
	token   string
	try     int  // counts attempts, so that replies to an earlier one are ignored
	failed  int  // attempts that count for the next wait
	reload  bool // the state was loaded and found too old, and no subscription has come of it
	plain   bool // without deltas from now on
	closed  bool
	tracked *tracked // of shared poll
}

// Flags of a subscribe request.
const (
	flagCompaction = 1 // the client knows channels by numbers
	flagState      = 2 // error 112 in place of a subscription that is not recovered
)

// NewSubscription returns a subscription to a channel, which begins with Subscribe. It fails if there is one that has
// not been closed.
func (c *Client) NewSubscription(channel string, o *SubscribeOptions) (*Subscription, error) {
	return c.newSubscription(channel, o, 0)
}

func (c *Client) newSubscription(channel string, o *SubscribeOptions, kind int32) (*Subscription, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, ErrClosed
	case channel == "":
		return nil, errors.New("client: the name of the channel is empty")
	case c.subscription(channel) != nil:
		return nil, fmt.Errorf("client: there is a subscription to %q already", channel)
	case o != nil && o.Delta && o.Filter != nil:
		return nil, fmt.Errorf("client: subscription to %q: Delta and Filter cannot be combined", channel)
	}
	s := &Subscription{stream: stream{c: c, channel: channel, queues: new(eventqueue.Set[Event])}, kind: kind, reason: UnsubscribeCalled}
	if o != nil {
		s.so = *o
		if o.Since != nil {
			s.recoverable, s.at = true, *o.Since
		}
	}
	s.token = s.so.Token
	c.subs.Add(s.channel, s)
	return s, nil
}

// Channel is its name.
func (s *Subscription) Channel() string { return s.channel }

// State of the subscription, and why it is in it.
func (s *Subscription) State() (SubscriptionState, Reason) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.state, s.reason
}

// Position is the position of the last publication, if the subscription can be recovered.
func (s *Subscription) Position() (at StreamPosition, ok bool) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.at, s.recoverable
}

// SetFilter replaces SubscribeOptions.Filter, from the next time that the client subscribes.
func (s *Subscription) SetFilter(f *FilterNode) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.so.Filter = f
}

// Subscribe begins to subscribe, as soon as the client is connected. It does not wait.
func (s *Subscription) Subscribe() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.closed || s.state != Unsubscribed {
		return
	}
	s.failed = 0
	s.enter(Subscribing, SubscribeCalled)
	s.start()
	if s.c.link != nil {
		s.c.link.flush()
	}
}

// Ready waits until the client is subscribed. If ctx ends first, the error is its cause, with the error of the last
// attempt to connect or to subscribe. Otherwise it is ErrUnsubscribed or ErrDisconnected, with a Reason: the client does
// not try.
func (s *Subscription) Ready(ctx context.Context) error {
	for {
		s.c.mu.Lock()
		if s.state == Subscribed {
			s.c.mu.Unlock()
			return nil
		}
		if err := s.over(); err != nil {
			s.c.mu.Unlock()
			return err
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			s.c.mu.Lock()
			defer s.c.mu.Unlock()
			if s.c.state != Connected {
				return late(ctx, "connect", s.c.failure)
			}
			return late(ctx, "subscribe", s.failure)
		}
	}
}

// over is why the client does not try to subscribe; nil: it does, or is subscribed. The lock is held.
func (s *Subscription) over() error {
	switch {
	case s.state == Unsubscribed:
		return s.ended(ErrUnsubscribed, s.reason)
	case s.c.state == Disconnected:
		return s.ended(ErrDisconnected, s.c.reason)
	}
	return nil
}

func (s *Subscription) ended(what *Error, why Reason) error {
	return fmt.Errorf("client: channel %q: %w: %w", s.channel, what, why)
}

// Unsubscribe ends the subscription. Its position stays for the next Subscribe.
func (s *Subscription) Unsubscribe() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.quit(UnsubscribeCalled)
}

// Close unsubscribes, and ends the iterators. Then another subscription to the channel can be made.
func (s *Subscription) Close() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.closed {
		return
	}
	s.quit(UnsubscribeCalled)
	s.end()
	s.c.subs.Remove(s.channel)
}

// Events returns the events of the subscription and of its channel from this call on. Range over it once. It ends when
// ctx ends, and the caller must end ctx; it also ends with Close, or, after a DisconnectedEvent, when the client is
// disconnected: at once if it is when the loop begins. Before the first Connect it waits. Events wait in it, see
// Options.Buffer.
func (s *Subscription) Events(ctx context.Context) iter.Seq[Event] {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	f, events := s.c.watch(ctx, eventqueue.Session, s.channel, s.closed, s.queues)
	var missed *attempts // that are over
	if s.c.state == Disconnected {
		missed = s.c.tries
	}
	return func(yield func(Event) bool) {
		s.c.mu.Lock()
		if missed != nil && s.c.tries == missed {
			f.Finish(DisconnectedEvent{Reason: s.c.reason})
		}
		s.c.mu.Unlock()
		events(yield)
	}
}

// EventsUntilClosed is as Events, without DisconnectedEvent: it goes on with the next Connect.
func (s *Subscription) EventsUntilClosed(ctx context.Context) iter.Seq[Event] {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	_, events := s.c.watch(ctx, eventqueue.Source, s.channel, s.closed, s.queues)
	return events
}

// GapError says that publications are missing: the server had them no more, or the iterator had no room.
type GapError GapEvent

// Error names the channel and the positions.
func (e *GapError) Error() string {
	text := fmt.Sprintf("client: publications of %q", e.Channel)
	if e.From != e.To {
		text += fmt.Sprintf(" from %d (epoch %q) to %d (epoch %q)", e.From.Offset, e.From.Epoch, e.To.Offset, e.To.Epoch)
	}
	text += " are missing"
	if e.Unread {
		text += ": the iterator was full (Options.Buffer), and nobody took its events"
	}
	return text
}

// Publications returns the publications from this call on. Range over it once. It ends when ctx ends, and the caller
// must end ctx. A *GapError replaces missing publications; later ones follow. The last element is an error if the
// subscription ends otherwise: ErrUnsubscribed with a Reason if the server, or GetToken, ends it; ErrDisconnected with a
// Reason if the client is disconnected, as with Events. Unsubscribe and Close end it without an error.
func (s *Subscription) Publications(ctx context.Context) iter.Seq2[Publication, error] {
	events := s.Events(ctx)
	return func(yield func(Publication, error) bool) {
		for e := range events {
			on := true
			switch e := e.(type) {
			case PublicationEvent:
				on = yield(e.Publication, nil)
			case GapEvent:
				gap := GapError(e)
				on = yield(Publication{}, &gap)
			case UnsubscribedEvent:
				if e.Reason != ClientClosed && e.Reason != UnsubscribeCalled {
					yield(Publication{}, s.ended(ErrUnsubscribed, e.Reason))
				}
				return
			case DisconnectedEvent:
				on = yield(Publication{}, s.ended(ErrDisconnected, e.Reason))
			}
			if !on {
				return
			}
		}
	}
}
