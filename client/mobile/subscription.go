package mobile

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/gyrohq/gyro/client"
)

// SubscribeOptions of a Subscription.
type SubscribeOptions struct {
	// Token for the channel, and TokenSource, which gives others.
	Token       string
	TokenSource TokenSource
	// Data for the server's application.
	Data []byte
	// SinceOffset and SinceEpoch are the position after which publications are fetched at first; no epoch: none.
	SinceOffset int64
	SinceEpoch  string
	// Positioned, Recoverable and JoinLeave ask for features; the server grants them if it lets clients choose.
	Positioned, Recoverable, JoinLeave bool
	// Delta makes the server send publications as differences. It cannot be combined with Filter.
	Delta bool
	// Filter asks only for publications whose tags match; nil: all.
	Filter *Filter
}

// NewSubscribeOptions returns the defaults.
func NewSubscribeOptions() *SubscribeOptions { return new(SubscribeOptions) }

// SubscriptionListener hears of a channel.
type SubscriptionListener interface {
	OnSubscribing(code int, reason string)
	OnSubscribed(wasRecovering, recovered bool, data []byte)
	OnUnsubscribed(code int, reason string)
	OnError(code int, message string)
	OnPublication(p *Publication)
	// OnGap tells that publications between two offsets are lost: load the state anew.
	OnGap(from, to int64)
	// OnState has all entries of a map. They replace the earlier ones.
	OnState(entries *Publications)
	OnJoin(userID, clientID string)
	OnLeave(userID, clientID string)
}

// Subscription to a channel.
type Subscription struct {
	c *Client
	s *client.Subscription
	m *client.Map  // nil: it is none
	p *client.Poll // nil: it is none
}

// NewSubscription returns a subscription, which begins with Subscribe. o may be nil. A client has one per channel.
func (c *Client) NewSubscription(channel string, o *SubscribeOptions, l SubscriptionListener) (*Subscription, error) {
	so, err := o.options(l)
	if err != nil {
		return nil, err
	}
	s, err := c.c.NewSubscription(channel, so)
	if err != nil {
		return nil, err
	}
	return c.listen(&Subscription{c: c, s: s}, l), nil
}

// NewMap returns a subscription to a map: its listener gets OnState with all entries, and then the changes.
func (c *Client) NewMap(channel string, o *SubscribeOptions, l SubscriptionListener) (*Subscription, error) {
	so, err := o.options(l)
	if err != nil {
		return nil, err
	}
	m, err := c.c.NewMap(channel, &client.MapOptions{SubscribeOptions: client.SubscribeOptions{
		Token: so.Token, GetToken: so.GetToken, Data: so.Data, Delta: so.Delta, Filter: so.Filter,
	}})
	if err != nil {
		return nil, err
	}
	return c.listen(&Subscription{c: c, s: m.Subscription, m: m}, l), nil
}

func (o *SubscribeOptions) options(l SubscriptionListener) (*client.SubscribeOptions, error) {
	if l == nil {
		return nil, errors.New("mobile: a subscription needs a listener")
	}
	if o == nil {
		o = new(SubscribeOptions)
	}
	so := &client.SubscribeOptions{
		Token: o.Token, Data: o.Data, Positioned: o.Positioned, Recoverable: o.Recoverable, JoinLeave: o.JoinLeave, Delta: o.Delta, Filter: o.Filter.of(),
	}
	if o.SinceEpoch != "" {
		so.Since = &client.StreamPosition{Offset: uint64(o.SinceOffset), Epoch: o.SinceEpoch}
	}
	if source := o.TokenSource; source != nil {
		so.GetToken = func(_ context.Context, channel string) (string, error) { return source.Token(channel) }
	}
	return so, nil
}

func (c *Client) listen(s *Subscription, l SubscriptionListener) *Subscription {
	ctx, cancel := context.WithCancel(c.ctx)
	events := s.s.EventsUntilClosed(ctx)
	c.running.Go(func() {
		defer cancel()
		for e := range events {
			s.tell(l, e)
		}
	})
	return s
}

func (s *Subscription) tell(l SubscriptionListener, e client.Event) {
	switch e := e.(type) {
	case client.SubscribingEvent:
		l.OnSubscribing(int(e.Reason.Code), e.Reason.Text)
	case client.SubscribedEvent:
		l.OnSubscribed(e.WasRecovering, e.Recovered, e.Data)
	case client.UnsubscribedEvent:
		l.OnUnsubscribed(int(e.Reason.Code), e.Reason.Text)
	case client.ErrorEvent:
		l.OnError(int(e.Code), e.Message)
	case client.PublicationEvent:
		l.OnPublication(publication(e.Publication))
	case client.GapEvent:
		l.OnGap(int64(e.From.Offset), int64(e.To.Offset))
	case client.StateEvent:
		l.OnState(&Publications{list: e.Entries})
	case client.JoinEvent:
		l.OnJoin(e.Info.User, e.Info.Client)
	case client.LeaveEvent:
		l.OnLeave(e.Info.User, e.Info.Client)
	}
}

// Channel is its name.
func (s *Subscription) Channel() string { return s.s.Channel() }

// State is one of Unsubscribed, Subscribing and Subscribed.
func (s *Subscription) State() int {
	state, _ := s.s.State()
	return int(state)
}

// Subscribe begins to subscribe, as soon as the client is connected.
func (s *Subscription) Subscribe() { s.s.Subscribe() }

// Unsubscribe ends the subscription. Its position is kept for the next Subscribe.
func (s *Subscription) Unsubscribe() { s.s.Unsubscribe() }

// Close unsubscribes. Another subscription to the channel can be made then.
func (s *Subscription) Close() { s.s.Close() }

// Publish publishes to the channel, once the client is subscribed.
func (s *Subscription) Publish(data []byte) error { return s.s.Publish(s.c.ctx, data) }

// History reads the newest publications of the channel, at most limit, the newest first.
func (s *Subscription) History(limit int) (*Publications, error) {
	h, err := s.s.History(s.c.ctx, client.HistoryOptions{Limit: limit, Reverse: true})
	if err != nil {
		return nil, err
	}
	return &Publications{h.Publications, h.Top}, nil
}

// Presence returns the clients that are subscribed to the channel.
func (s *Subscription) Presence() (*Members, error) {
	all, err := s.s.Presence(s.c.ctx)
	if err != nil {
		return nil, err
	}
	m := new(Members)
	for _, info := range all {
		m.list = append(m.list, &Member{UserID: info.User, ClientID: info.Client, ConnInfo: info.ConnInfo, ChanInfo: info.ChanInfo})
	}
	slices.SortFunc(m.list, func(a, b *Member) int { return cmp.Compare(a.ClientID, b.ClientID) })
	return m, nil
}

var errNoMap = errors.New("mobile: the subscription is none to a map: NewMap makes those")

// Set sets the entry of a key. The subscription is one of NewMap.
func (s *Subscription) Set(key string, data []byte) error {
	if s.m == nil {
		return errNoMap
	}
	return s.m.Set(s.c.ctx, key, data)
}

// Delete removes the entry of a key. The subscription is one of NewMap.
func (s *Subscription) Delete(key string) error {
	if s.m == nil {
		return errNoMap
	}
	return s.m.Delete(s.c.ctx, key)
}

// Member is a client that is subscribed to a channel.
type Member struct {
	UserID, ClientID   string
	ConnInfo, ChanInfo []byte
}

// Members are a list, in the order of their ClientID.
type Members struct{ list []*Member }

// Len is how many there are.
func (m *Members) Len() int { return len(m.list) }

// At is one of them, from 0 on; nil if there is none.
func (m *Members) At(i int) *Member {
	if i < 0 || i >= len(m.list) {
		return nil
	}
	return m.list[i]
}
