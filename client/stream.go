package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/gyrohq/gyro/client/internal/eventqueue"
	"github.com/gyrohq/gyro/internal/fossil"
	"github.com/gyrohq/gyro/protocol"
)

// stream is the state of a channel, whether the client or the server has subscribed.
type stream struct {
	c           *Client
	channel     string
	queues      *eventqueue.Set[Event] // of the events in the channel
	live        bool                   // subscribed
	positioned  bool                   // by the reply of the server
	recoverable bool
	at          StreamPosition
	delta       bool
	base        []byte            // of the next delta
	bases       map[string][]byte // of each key
	entries     *entries          // of a map
}

// invalid is the epoch of a position that the server has declared invalid.
const invalid = "_"

func (s *stream) invalidate() {
	s.base, s.bases = nil, nil
	switch {
	case s.entries != nil:
		s.recoverable = false
	case s.recoverable:
		s.at = StreamPosition{Epoch: invalid}
	}
}

func (s *stream) request() *protocol.SubscribeRequest {
	r := new(protocol.SubscribeRequest)
	if s.recoverable {
		r.Recover, r.Offset, r.Epoch = true, s.at.Offset, s.at.Epoch
	}
	return r
}

func (s *stream) subscribed(r *protocol.SubscribeResult) error {
	before, now := s.at, s.positionOf(r)
	s.live, s.delta, s.at = true, r.Delta, now
	if s.positioned = r.Positioned || r.Recoverable; !s.positioned { // publications may be lost from now on
		s.at = StreamPosition{Epoch: invalid}
	}
	s.recoverable = s.recoverable || r.Recoverable
	if !r.Recovered {
		s.base, s.bases = nil, nil
	}
	s.queues.Push(SubscribedEvent{
		Channel: s.channel, Positioned: r.Positioned, Recoverable: r.Recoverable, WasRecovering: r.WasRecovering, Recovered: r.Recovered,
		Position: now, Data: r.Data,
	})
	if r.WasRecovering && !r.Recovered {
		s.queues.Push(GapEvent{Channel: s.channel, From: before, To: now})
	}
	for _, p := range r.Publications {
		if err := s.publication(p); err != nil {
			return err
		}
	}
	return nil
}

// positionOf: in cache mode a server may recover from a position of another stream, and return its offset beside the
// epoch of the present one; by that offset publications would be taken for old ones.
func (s *stream) positionOf(r *protocol.SubscribeResult) StreamPosition {
	at := StreamPosition{Offset: r.Offset, Epoch: r.Epoch}
	if r.Recovered && s.at.Epoch != "" && s.at.Epoch != r.Epoch {
		at.Offset = 0
	}
	return at
}

// publication: after an error it was not handed over.
func (s *stream) publication(p *protocol.Publication) error {
	counts := s.positioned && p.Offset > 0 && p.Channel == ""
	if counts && p.Offset <= s.at.Offset && (p.Epoch == "" || p.Epoch == s.at.Epoch) {
		return nil // the server repeats itself
	}
	data, err := s.payload(p)
	if err != nil {
		return err
	}
	if counts {
		s.at.Offset = p.Offset
		if p.Epoch != "" {
			s.at.Epoch = p.Epoch
		}
	}
	handed := s.handed(p, data)
	if s.entries == nil || s.entries.apply(handed) {
		s.queues.Push(PublicationEvent{handed})
	}
	return nil
}

func (s *stream) handed(p *protocol.Publication, data []byte) Publication {
	return Publication{
		Channel: cmp.Or(p.Channel, s.channel), Data: data, Offset: p.Offset, Info: p.Info, Tags: p.Tags,
		Key: p.Key, Removed: p.Removed, Score: p.Score, Version: p.Version,
	}
}

var errNoString = errors.New("the payload is no string, although the channel has deltas")

// payload returns the payload, which may come as a delta. A map whose last subscription had no deltas has the bases in
// its entries.
func (s *stream) payload(p *protocol.Publication) ([]byte, error) {
	switch {
	case !s.delta:
		delete(s.bases, p.Key)
		return p.Data, nil
	case p.Removed: // it has no data but a filler
		delete(s.bases, p.Key)
		return nil, nil
	}
	data := p.Data
	if s.c.options.Encoding == protocol.JSON { // it is in a string
		var text string
		if json.Unmarshal(data, &text) != nil {
			return nil, errNoString
		}
		data = []byte(text)
	}
	base := s.base
	if p.Key != "" {
		base = s.bases[p.Key]
	}
	if base == nil && s.entries != nil {
		base = s.entries.current[p.Key].Data
	}
	if p.Delta {
		target, err := fossil.Apply(base, data)
		if err != nil {
			return nil, err
		}
		data = target
	}
	if p.Key == "" {
		s.base = data
		return data, nil
	}
	if s.bases == nil {
		s.bases = make(map[string][]byte)
	}
	s.bases[p.Key] = data
	return data, nil
}

func (s *stream) event(p *protocol.Push) {
	switch {
	case p.Join != nil && p.Join.Info != nil:
		s.queues.Push(JoinEvent{s.channel, *p.Join.Info})
	case p.Leave != nil && p.Leave.Info != nil:
		s.queues.Push(LeaveEvent{s.channel, *p.Leave.Info})
	}
}

// serverPush takes a push of a channel that the server has subscribed.
func (c *Client) serverPush(channel string, p *protocol.Push) {
	if p.Subscribe != nil {
		c.serverStream(channel).take(&protocol.SubscribeResult{
			Recoverable: p.Subscribe.Recoverable, Positioned: p.Subscribe.Positioned, Epoch: p.Subscribe.Epoch, Offset: p.Subscribe.Offset,
			Data: p.Subscribe.Data,
		})
		return
	}
	at := c.serverIndex(channel)
	if at < 0 || !c.server[at].live {
		return // it has ended
	}
	switch s := c.server[at]; {
	case p.Unsubscribe != nil:
		c.server = slices.Delete(c.server, at, at+1)
		c.queues.Push(UnsubscribedEvent{channel, Reason{p.Unsubscribe.Code, p.Unsubscribe.Reason}})
	case p.Pub != nil:
		_ = s.publication(p.Pub) // it has no deltas
	default:
		s.event(p)
	}
}

// take is for subscriptions without deltas.
func (s *stream) take(r *protocol.SubscribeResult) {
	r.Delta = false     // the client has not asked for them
	_ = s.subscribed(r) // so it does not fail
}

func (c *Client) serverIndex(channel string) int {
	return slices.IndexFunc(c.server, func(s *stream) bool { return s.channel == channel })
}

func (c *Client) serverStream(channel string) *stream {
	if at := c.serverIndex(channel); at >= 0 {
		return c.server[at]
	}
	s := &stream{c: c, channel: channel, queues: &c.queues}
	c.server = append(c.server, s)
	return s
}

// positions of the subscriptions that the server has made.
func (c *Client) positions() map[string]*protocol.SubscribeRequest {
	var list map[string]*protocol.SubscribeRequest
	for _, s := range c.server {
		if s.recoverable {
			if list == nil {
				list = make(map[string]*protocol.SubscribeRequest)
			}
			list[s.channel] = s.request()
		}
	}
	return list
}

func (c *Client) serverSubscribed(subs map[string]*protocol.SubscribeResult) {
	c.server = slices.DeleteFunc(c.server, func(s *stream) bool {
		if subs[s.channel] != nil {
			return false
		}
		c.queues.Push(UnsubscribedEvent{s.channel, Reason{}})
		return true
	})
	for _, ch := range slices.Sorted(maps.Keys(subs)) {
		c.serverStream(ch).take(subs[ch])
	}
}
