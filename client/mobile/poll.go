package mobile

import (
	"context"
	"errors"

	"github.com/gyrohq/gyro/client"
)

// Strings is a list of texts.
type Strings struct{ list []string }

// NewStrings returns an empty list.
func NewStrings() *Strings { return new(Strings) }

// Add adds a text.
func (s *Strings) Add(text string) { s.list = append(s.list, text) }

// Len is how many there are.
func (s *Strings) Len() int { return len(s.list) }

// At is one of them, from 0 on; empty if there is none.
func (s *Strings) At(i int) string {
	if i < 0 || i >= len(s.list) {
		return ""
	}
	return s.list[i]
}

func of(s *Strings) []string {
	if s == nil {
		return nil
	}
	return s.list
}

// SignatureSource gets a signature for keys of a shared poll channel, in their order. An empty signature says that the
// user may not; after an error the client tries again.
type SignatureSource interface {
	Signature(channel string, keys *Strings) (string, error)
}

// NewPoll returns a subscription of shared poll: its listener gets the values of the tracked keys as publications with
// Key and Version. source may be nil if each Track has a signature. o may be nil; shared poll uses only its Token,
// TokenSource, Data and Delta.
func (c *Client) NewPoll(channel string, o *SubscribeOptions, source SignatureSource, l SubscriptionListener) (*Subscription, error) {
	so, err := o.options(l)
	if err != nil {
		return nil, err
	}
	po := &client.PollOptions{SubscribeOptions: *so}
	if source != nil {
		po.GetSignature = func(_ context.Context, channel string, keys []string) (string, error) {
			return source.Signature(channel, &Strings{keys})
		}
	}
	p, err := c.c.NewPoll(channel, po)
	if err != nil {
		return nil, err
	}
	return c.listen(&Subscription{c: c, s: p.Subscription, p: p}, l), nil
}

// errNoPoll says that a subscription is not one of NewPoll.
var errNoPoll = errors.New("mobile: the subscription is not one of shared poll; make it with NewPoll")

// Track asks for the values of keys. The application has signed them together and in this order; if signature is empty, the client asks
// the SignatureSource for one. It is an error unless the subscription is one of NewPoll.
func (s *Subscription) Track(keys *Strings, signature string) error {
	if s.p == nil {
		return errNoPoll
	}
	return s.p.Track(of(keys), signature)
}

// Untrack ends the interest in keys. It is an error unless the subscription is one of NewPoll.
func (s *Subscription) Untrack(keys *Strings) error {
	if s.p == nil {
		return errNoPoll
	}
	s.p.Untrack(of(keys))
	return nil
}
