package account

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/protocol"
)

// CodeInsufficient of an unsubscribe push says that the subscription may have missed something.
const CodeInsufficient = 2500

// SDK is a client by centrifuge-go with a subscription and its book.
type SDK struct {
	*centrifuge.Client
	Absence

	sub *centrifuge.Subscription
}

type Options struct {
	URL          string
	Client       centrifuge.Config
	Channel      string
	Subscription centrifuge.SubscriptionConfig
	Book         *Book
	// Check returns an error for a wrong publication. Fail hears of events that must not happen to a client.
	Check func(Payload) error
	Fail  func(string)
}

// NewSDK connects a client and subscribes it. It does not wait for either.
func NewSDK(o Options) (*SDK, error) {
	s := &SDK{Client: centrifuge.NewJsonClient(o.URL, o.Client)}
	var err error
	if s.sub, err = s.NewSubscription(o.Channel, o.Subscription); err != nil {
		return nil, err
	}
	s.subscription(&o)
	s.OnConnecting(func(e centrifuge.ConnectingEvent) {
		if e.Code != 0 { // 0: the first time
			o.Book.Note(func(c *Counts) { c.Reconnects++ })
			s.Left(time.Now())
		}
	})
	s.OnConnected(func(centrifuge.ConnectedEvent) { s.Returned(time.Now()) })
	s.OnDisconnected(func(e centrifuge.DisconnectedEvent) {
		switch e.Code {
		case 0: // the test has disconnected
		case protocol.DisconnectBadRequest.Code:
			// A timer of centrifuge-go that subscribes again may fire while it connects, and send subscribe ahead of
			// connect.
			go func() { _ = s.Connect() }()
		default:
			o.Fail(fmt.Sprintf("SDK disconnected: %d %s", e.Code, e.Reason))
		}
	})
	if err := s.Connect(); err != nil {
		return nil, err
	}
	return s, s.sub.Subscribe()
}

func (s *SDK) subscription(o *Options) {
	s.sub.OnSubscribed(func(e centrifuge.SubscribedEvent) {
		if e.WasRecovering && !e.Recovered {
			o.Book.WasTold()
		}
	})
	s.sub.OnPublication(func(e centrifuge.PublicationEvent) {
		var content Payload
		if err := json.Unmarshal(e.Data, &content); err != nil {
			o.Fail(err.Error())
			return
		}
		if err := o.Check(content); err != nil {
			o.Fail(err.Error())
		}
		o.Book.Receive(content.N)
	})
	s.sub.OnSubscribing(func(e centrifuge.SubscribingEvent) {
		if e.Code == CodeInsufficient {
			o.Book.Note(func(c *Counts) { c.Insufficient++ })
		}
	})
	s.sub.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) {
		if e.Code != 0 { // 0: the test has unsubscribed
			o.Book.Note(func(c *Counts) { c.Refused++ })
			o.Fail("SDK unsubscribed: " + e.Reason)
		}
	})
}

func (s *SDK) Subscribed() bool { return s.sub.State() == centrifuge.SubStateSubscribed }

func (s *SDK) Describe() string {
	return fmt.Sprintf("%s, its subscription of %s %s", s.Client.State(), s.sub.Channel, s.sub.State())
}

// Absence notes when a client is away. Any goroutine may call its methods.
type Absence struct {
	mu      sync.Mutex
	since   time.Time // zero while it is connected
	times   int
	longest time.Duration
}

func (a *Absence) Left(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() {
		a.since = at
		a.times++
	}
}

func (a *Absence) Returned(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.since.IsZero() {
		a.longest = max(a.longest, at.Sub(a.since))
		a.since = time.Time{}
	}
}

// Away returns how often the client was away and how long at most since the last call with anew, and whether it is away
// now. An absence that goes on is one of the next span as well.
func (a *Absence) Away(now time.Time, anew bool) (times int, longest time.Duration, still bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	times, longest, still = a.times, a.longest, !a.since.IsZero()
	if still {
		longest = max(longest, now.Sub(a.since))
	}
	if anew {
		a.times, a.longest = 0, 0
		if still {
			a.times = 1
		}
	}
	return times, longest, still
}
