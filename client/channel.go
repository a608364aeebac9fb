package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
)

// Channel is a Subscription whose payloads are values of a type, as JSON.
type Channel[T any] struct{ *Subscription }

// ChannelOf returns a subscription as a Channel of a type.
func ChannelOf[T any](s *Subscription) Channel[T] { return Channel[T]{s} }

// Message is a publication with its value.
type Message[T any] struct {
	Publication
	Value T
}

// String has the fields as %+v, with the payload as text.
func (m Message[T]) String() string {
	return fmt.Sprintf("{Publication:%v Value:%+v}", m.Publication, m.Value)
}

// Publish publishes a value, once the client is subscribed. The error is one of Subscription.Publish, or of json.Marshal.
func (c Channel[T]) Publish(ctx context.Context, value T) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("client: publish to %q: %w", c.channel, err)
	}
	return c.Subscription.Publish(ctx, data)
}

// Messages returns the publications from this call on, with their values. Range over it once. It ends as
// Subscription.Publications does, with the same errors. A *PayloadError replaces a publication that is no such value.
func (c Channel[T]) Messages(ctx context.Context) iter.Seq2[Message[T], error] {
	publications := c.Publications(ctx)
	return func(yield func(Message[T], error) bool) {
		for p, err := range publications {
			m := Message[T]{Publication: p}
			if err == nil {
				if bad := json.Unmarshal(p.Data, &m.Value); bad != nil {
					err = &PayloadError{p, bad}
				}
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// PayloadError says that a publication is not a value of the type of its Channel.
type PayloadError struct {
	Publication Publication
	Err         error // of json.Unmarshal
}

// Error names the channel and the position.
func (e *PayloadError) Error() string {
	return fmt.Sprintf("client: the publication of %q at offset %d is not a value of the channel's type: %v", e.Publication.Channel, e.Publication.Offset, e.Err)
}

// Unwrap returns Err.
func (e *PayloadError) Unwrap() error { return e.Err }
