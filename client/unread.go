package client

import "slices"

// maxLeftOut bounds the events for left out ones, besides gaps whose channel is empty.
const maxLeftOut = 256

// leftOut adds an event without room to the few that stand for such events: a gap for each channel, and the latest
// states. channel is the subscription's, if all events are of one. The client's lock is held.
func (c *Client) leftOut(left []Event, e Event, channel string) []Event {
	switch e := e.(type) {
	case ErrorEvent:
		return left
	case ConnectingEvent, ConnectedEvent, DisconnectedEvent:
		return entered(left, e, ofClient)
	case SubscribingEvent, SubscribedEvent, UnsubscribedEvent:
		of, _ := subscriptionOf(e)
		same := func(e Event) bool {
			other, ok := subscriptionOf(e)
			return ok && other == of
		}
		if len(left) < maxLeftOut || slices.ContainsFunc(left, same) {
			return entered(left, e, same)
		}
	}
	gap := c.gapFor(e)
	if channel != "" {
		gap.Channel = channel // of a pattern, perhaps
	}
	return widened(left, gap)
}

func entered(left []Event, e Event, same func(Event) bool) []Event {
	return append(slices.DeleteFunc(left, same), e)
}

func ofClient(e Event) bool {
	switch e.(type) {
	case ConnectingEvent, ConnectedEvent, DisconnectedEvent:
		return true
	}
	return false
}

func subscriptionOf(e Event) (channel string, ok bool) {
	switch e := e.(type) {
	case SubscribingEvent:
		return e.Channel, true
	case SubscribedEvent:
		return e.Channel, true
	case UnsubscribedEvent:
		return e.Channel, true
	}
	return "", false
}

func (c *Client) gapFor(e Event) GapEvent {
	gap := GapEvent{Unread: true}
	switch e := e.(type) {
	case GapEvent:
		gap.Channel, gap.From, gap.To = e.Channel, e.From, e.To
	case PublicationEvent:
		gap.Channel = e.Channel
		if s := c.streamOf(e.Channel); s != nil && s.recoverable && e.Offset > 0 {
			gap.From = StreamPosition{Offset: e.Offset - 1, Epoch: s.at.Epoch}
			gap.To = StreamPosition{Offset: e.Offset, Epoch: s.at.Epoch}
		}
	case StateEvent:
		gap.Channel = e.Channel
	case JoinEvent:
		gap.Channel = e.Channel
	case LeaveEvent:
		gap.Channel = e.Channel
	}
	return gap
}

func (c *Client) streamOf(channel string) *stream {
	if s := c.subscription(channel); s != nil {
		return &s.stream
	}
	if at := c.serverIndex(channel); at >= 0 {
		return c.server[at]
	}
	return nil
}

func widened(left []Event, gap GapEvent) []Event {
	of := func(channel string) int {
		return slices.IndexFunc(left, func(e Event) bool {
			known, ok := e.(GapEvent)
			return ok && known.Channel == channel
		})
	}
	at := of(gap.Channel)
	if at < 0 && len(left) >= maxLeftOut {
		gap = GapEvent{Unread: true}
		at = of("")
	}
	if at < 0 {
		return append(left, gap)
	}
	known := left[at].(GapEvent)
	if known.From == (StreamPosition{}) {
		known.From = gap.From
	}
	if gap.To != (StreamPosition{}) {
		known.To = gap.To
	}
	left[at] = known
	return left
}
