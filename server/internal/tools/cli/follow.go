package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/auth"
)

const (
	// connectTimeout bounds an attempt to connect, and minDelay is the least time until the next one.
	connectTimeout = 20 * time.Second
	minDelay       = 200 * time.Millisecond
	maxMessage     = 64 << 20
)

// Type of channels.
type Type int

const (
	Stream Type = iota
	Map
	MapClients // of clients that are present
	MapUsers   // of present users
	SharedPoll
)

// Kind is the type of channels, with its options.
type Kind struct {
	Type Type
	Keys []string
	// Delta asks the server for differences. The output is the same.
	Delta bool
}

func (k *Kind) check(channels []string) error {
	for i, ch := range channels {
		if slices.Contains(channels[:i], ch) {
			return Usage("channel %q is given twice", ch)
		}
	}
	if polls := k.Type == SharedPoll; polls != (len(k.Keys) > 0) {
		return Usage("key: keys are tracked in channels of type poll, which need some")
	}
	return nil
}

func (k *Kind) isMap() bool { return k.Type != Stream && k.Type != SharedPoll }

func (r *Remote) client(timeout time.Duration) (*client.Client, error) {
	if err := r.complete(); err != nil {
		return nil, err
	}
	o := client.Options{Name: "gyro-cli", Token: r.Token, TLS: r.TLS, Timeout: timeout, MinDelay: minDelay, MessageLimit: maxMessage,
		Logger: slog.New(slog.DiscardHandler)} // the events tell
	switch {
	case r.Token != "" && r.Sign != nil:
		return nil, Usage("token: is given, and so is a secret that signs tokens: leave one of them out")
	case r.Sign != nil:
		o.GetToken = func(context.Context) (string, error) {
			return auth.Sign(*r.Sign, auth.Claims{User: r.User, TTL: tokenTTL}, time.Now())
		}
	}
	return client.New(r.URL, o)
}

// subscriptions returns a client with subscriptions. since, if set, is the position after which they begin.
func (r *Remote) subscriptions(channels []string, kind Kind, joinLeave bool, since *client.StreamPosition) (*client.Client, []*client.Subscription, error) {
	c, err := r.client(connectTimeout)
	if err != nil {
		return nil, nil, err
	}
	var subs []*client.Subscription
	for _, ch := range channels {
		sub, err := r.subscription(c, ch, kind, joinLeave, since)
		if err != nil {
			return nil, nil, err
		}
		subs = append(subs, sub)
	}
	return c, subs, nil
}

func (r *Remote) subscription(c *client.Client, ch string, kind Kind, joinLeave bool, since *client.StreamPosition) (*client.Subscription, error) {
	o := client.SubscribeOptions{Delta: kind.Delta, Since: since}
	if r.Token == "" && r.Subscribe != nil {
		o.GetToken = func(context.Context, string) (string, error) {
			return auth.Sign(*r.Subscribe, auth.Claims{User: r.User, Channel: ch, TTL: tokenTTL}, time.Now())
		}
	}
	switch kind.Type {
	case Stream:
		o.Recoverable, o.JoinLeave = true, joinLeave
		return c.NewSubscription(ch, &o)
	case SharedPoll:
		return r.poll(c, ch, kind.Keys, o)
	}
	m, err := c.NewMap(ch, &client.MapOptions{SubscribeOptions: o, Kind: client.MapKind(kind.Type - Map)})
	if err != nil {
		return nil, err
	}
	return m.Subscription, nil
}

func (r *Remote) poll(c *client.Client, ch string, keys []string, o client.SubscribeOptions) (*client.Subscription, error) {
	po := client.PollOptions{SubscribeOptions: o}
	switch {
	case r.Signature != "":
	case r.KeySecret == "":
		return nil, Usage("keys of %q need a signature: give key-hmac-secret, signature, or the configuration of the server", ch)
	default:
		po.GetSignature = func(_ context.Context, ch string, keys []string) (string, error) {
			now := time.Now()
			return auth.SignTrack(r.KeySecret, r.User, ch, keys, now.Unix(), now.Add(tokenTTL).Unix()), nil
		}
	}
	p, err := c.NewPoll(ch, &po)
	if err != nil {
		return nil, err
	}
	return p.Subscription, p.Track(keys, r.Signature)
}

// follow connects a client, and hands events of it and of its subscriptions to handle, one after the other, until ctx
// ends, the server refuses the client for good, all subscriptions have ended, or handle fails. The first connection has
// to succeed. It returns the reason, which is the cause of ctx if that has ended.
func (r *Remote) follow(ctx context.Context, c *client.Client, subs []*client.Subscription, handle func(client.Event) error) error {
	f := &following{url: r.URL, left: make(map[string]bool), foreign: make(map[string]bool)}
	for _, s := range subs {
		f.left[s.Channel()] = true
	}
	events := c.Events(ctx, subs...)
	for _, s := range subs {
		s.Subscribe()
	}
	go func() { _ = c.Connect(ctx) }() // an error of Connect comes as an event too
	for e := range events {
		if f.strange(e) {
			continue
		}
		if err := f.refused(e); err != nil {
			return err
		}
		if err := handle(e); err != nil {
			return err
		}
		if e, ok := e.(client.UnsubscribedEvent); ok && len(f.left) == 0 {
			return ending(e.Channel, e.Reason)
		}
	}
	return context.Cause(ctx)
}

type following struct {
	url       string
	connected bool            // at least once
	left      map[string]bool // channels whose subscriptions have not ended
	foreign   map[string]bool // channels of server-side subscriptions
}

// strange tells of an event about a channel that the command has not asked for. Publications of a subscription to a
// pattern have other channels than the pattern.
func (f *following) strange(e client.Event) bool {
	switch e := e.(type) {
	case client.SubscribedEvent:
		if !f.left[e.Channel] {
			f.foreign[e.Channel] = true
		}
		return f.foreign[e.Channel]
	case client.SubscribingEvent:
		return f.foreign[e.Channel]
	case client.UnsubscribedEvent:
		return f.foreign[e.Channel]
	case client.PublicationEvent:
		return f.foreign[e.Channel]
	case client.JoinEvent:
		return f.foreign[e.Channel]
	case client.LeaveEvent:
		return f.foreign[e.Channel]
	case client.GapEvent:
		return f.foreign[e.Channel]
	}
	return false
}

// refused returns an error if the server has refused the connection or a subscription.
func (f *following) refused(e client.Event) error {
	switch e := e.(type) {
	case client.ConnectedEvent:
		f.connected = true
	case client.DisconnectedEvent:
		return gone(e.Reason)
	case client.ErrorEvent:
		var refusal *client.Error
		switch {
		case e.Channel != "" && errors.As(e.Err, &refusal) && refusal.Code >= minCode && !refusal.Temporary:
			return fmt.Errorf("track keys of %q: error %w", e.Channel, e.Err)
		case !f.connected:
			return f.failure(e)
		}
	case client.UnsubscribedEvent:
		delete(f.left, e.Channel)
		if e.Reason.Code < minUnsubscribe {
			return ending(e.Channel, e.Reason)
		}
	}
	return nil
}

// The least codes of the server: of errors, unsubscribes and disconnects. The client makes lower ones.
const (
	minCode        = 100
	minUnsubscribe = 2000
	minDisconnect  = 3000
)

func gone(r client.Reason) error {
	if r.Code >= minDisconnect {
		return lost(r)
	}
	return fmt.Errorf("connect: %w", refusal(r))
}

func lost(r client.Reason) error {
	if r.Code >= minDisconnect {
		return protocol.Disconnect{Code: r.Code, Reason: r.Text}
	}
	return errors.New(r.Text)
}

func ending(ch string, r client.Reason) error {
	if r.Code >= minUnsubscribe {
		return fmt.Errorf("unsubscribed from %q by the server: %w", ch, r)
	}
	return fmt.Errorf("subscribe to %q: %w", ch, refusal(r))
}

func refusal(r client.Reason) error {
	switch {
	case r == client.Unauthorized: // there is no other token
		return fmt.Errorf("error %w", protocol.ErrorTokenExpired)
	case r.Code >= minCode:
		return fmt.Errorf("error %w", protocol.Error{Code: r.Code, Message: r.Text})
	}
	return errors.New(r.Text)
}

func (f *following) failure(e client.ErrorEvent) error {
	switch {
	case e.Channel != "":
		return fmt.Errorf("subscribe to %q: error %w", e.Channel, e.Err)
	case e.Code >= minCode:
		return fmt.Errorf("connect: error %w", e.Err)
	}
	return fmt.Errorf("%s: %w", f.url, cause(e))
}

// cause prefers the error of the network.
func cause(e client.ErrorEvent) error {
	if all, ok := e.Err.(interface{ Unwrap() []error }); ok && e.Code != client.ErrTimeout.Code {
		list := all.Unwrap()
		return list[len(list)-1]
	}
	return e.Err
}
