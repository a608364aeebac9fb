package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// Types of subscriptions in the protocol.
const (
	typeMap        = 1
	typeMapClients = 2
	typeMapUsers   = 3
	typeSharedPoll = 4
)

// Phases of the subscription to a map.
const (
	phaseLive   = 0
	phaseStream = 1
	phaseState  = 2
)

// MapKind tells where the keys of a map come from, see docs/maps.md.
type MapKind int32

// Kinds of maps.
const (
	MapData    MapKind = 0 // from publications
	MapClients MapKind = 1 // the clients that are subscribed to a channel
	MapUsers   MapKind = 2 // the users that are
)

// MapOptions of a Map.
type MapOptions struct {
	// SubscribeOptions without Since, GetState, Positioned, Recoverable and JoinLeave, which maps do not have.
	SubscribeOptions
	Kind MapKind
	// PageSize is how many entries come at a time. Default: the server decides.
	PageSize int
}

// Map is a subscription to a map. Client.NewMap makes one. Its events have a StateEvent after each SubscribedEvent whose
// Recovered is not set, and then the changes as PublicationEvents. After a GapEvent, Entries has all entries of now.
type Map struct{ *Subscription }

// NewMap returns a subscription to a map. It fails if there is a subscription to the channel.
func (c *Client) NewMap(channel string, o *MapOptions) (*Map, error) {
	if o == nil {
		o = new(MapOptions)
	}
	switch {
	case o.Kind < MapData || o.Kind > MapUsers:
		return nil, fmt.Errorf("client: map %q: MapOptions.Kind is none", channel)
	case o.Since != nil || o.GetState != nil || o.Positioned || o.Recoverable || o.JoinLeave:
		return nil, fmt.Errorf("client: map %q: Since, GetState, Positioned, Recoverable and JoinLeave are not for maps", channel)
	}
	s, err := c.newSubscription(channel, &o.SubscribeOptions, typeMap+int32(o.Kind))
	if err != nil {
		return nil, err
	}
	s.entries = &entries{limit: int32(min(max(o.PageSize, 0), 1<<20)), current: make(map[string]Publication), writes: make(map[string]*write)}
	return &Map{s}, nil
}

// entries of a map. The client's lock protects them.
type entries struct {
	limit   int32
	current map[string]Publication
	anew    bool                    // the state is being read; else changes are being recovered
	read    []*protocol.Publication // of all pages so far: the last one tells whether there are deltas
	step    protocol.SubscribeRequest
	first   StreamPosition // of the first page
	pause   time.Duration  // between two writes of a key
	writes  map[string]*write
}

// Entries returns the entries by their keys. They stay while the client is not subscribed.
func (m *Map) Entries() map[string]Publication {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return maps.Clone(m.entries.current)
}

func (e *entries) begin(s *Subscription) {
	e.step = protocol.SubscribeRequest{Phase: phaseState, Limit: e.limit}
	e.anew, e.read, e.first = !s.recoverable, nil, StreamPosition{}
	if s.recoverable {
		e.step = protocol.SubscribeRequest{Phase: phaseStream, Limit: e.limit, Recover: true, Offset: s.at.Offset, Epoch: s.at.Epoch}
	}
}

func (e *entries) fill(r *protocol.SubscribeRequest) {
	r.Phase, r.Limit, r.Cursor = e.step.Phase, e.step.Limit, e.step.Cursor
	r.Recover, r.Offset, r.Epoch = e.step.Recover, e.step.Offset, e.step.Epoch
}

// mapAnswered takes the result of a step, and makes the next one.
func (s *Subscription) mapAnswered(r *protocol.SubscribeResult) error {
	e := s.entries
	e.read = append(append(e.read, r.State...), r.Publications...)
	position := StreamPosition{Offset: r.Offset, Epoch: r.Epoch}
	if e.step.Phase == phaseState && e.step.Cursor == "" {
		e.first = position
	}
	switch {
	case r.Phase == phaseState && r.Cursor != "":
		e.step.Cursor, e.step.Offset, e.step.Epoch = r.Cursor, e.first.Offset, e.first.Epoch
	case r.Phase == phaseState:
		e.step = protocol.SubscribeRequest{Phase: phaseStream, Limit: e.limit, Offset: e.first.Offset, Epoch: e.first.Epoch}
	case r.Phase == phaseStream:
		e.step = protocol.SubscribeRequest{Phase: phaseStream, Limit: e.limit, Recover: !e.anew, Offset: r.Offset, Epoch: r.Epoch}
	default:
		return s.mapLive(r, position)
	}
	return nil
}

func (s *Subscription) mapLive(r *protocol.SubscribeResult, position StreamPosition) error {
	e := s.entries
	read := e.read
	e.read, e.pause = nil, time.Duration(r.PublishDebounce)*time.Millisecond
	s.delta = r.Delta
	if e.anew {
		s.bases = nil
		known, err := s.fold(read)
		if err != nil {
			return err
		}
		e.current, s.at = known, position
	}
	s.live, s.positioned, s.recoverable = true, r.Positioned || r.Recoverable, r.Recoverable
	s.queues.Push(SubscribedEvent{
		Channel: s.channel, Positioned: r.Positioned, Recoverable: r.Recoverable, WasRecovering: r.WasRecovering, Recovered: r.Recovered,
		Position: position, Data: r.Data,
	})
	if e.anew {
		list := make([]Publication, 0, len(e.current))
		for _, key := range slices.Sorted(maps.Keys(e.current)) {
			list = append(list, e.current[key])
		}
		s.queues.Push(StateEvent{s.channel, list})
		return nil
	}
	for _, p := range read {
		if err := s.publication(p); err != nil {
			return err
		}
	}
	s.at = position
	return nil
}

// fold returns the entries of the pages of a state, and of changes since.
func (s *Subscription) fold(read []*protocol.Publication) (map[string]Publication, error) {
	entries := make(map[string]Publication)
	for _, p := range read {
		data, err := s.payload(p)
		if err != nil {
			return nil, err
		}
		if known, ok := entries[p.Key]; ok && p.Offset > 0 && p.Offset < known.Offset {
			continue
		}
		if p.Removed {
			delete(entries, p.Key)
		} else {
			entries[p.Key] = s.handed(p, data)
		}
	}
	return entries, nil
}

// apply reports whether p is a change.
func (e *entries) apply(p Publication) bool {
	known, ok := e.current[p.Key]
	switch {
	case ok && p.Offset > 0 && p.Offset <= known.Offset:
		return false
	case p.Removed:
		delete(e.current, p.Key)
	default:
		e.current[p.Key] = p
	}
	return true
}

// write are changes of a key that wait, because the server wants fewer.
type write struct {
	next    *protocol.PublishRequest // nil: none waits
	waiting []chan error
}

// Set publishes the value of a key. If the server asks for it, changes of a key that come quickly are published as one,
// the last; all of them return then. It waits until the client is subscribed. It fails as Subscription.Ready and
// Client.Publish do.
func (m *Map) Set(ctx context.Context, key string, data []byte) error {
	return m.write(ctx, value(m.channel, key, data))
}

// Delete removes a key. It waits, and fails, as Set does, and quick changes are published as one.
func (m *Map) Delete(ctx context.Context, key string) error {
	return m.write(ctx, removal(m.channel, key))
}

// SetKey publishes the value of a key of a map as soon as the client is connected. It publishes each value, and the
// client need not be subscribed. It fails as Publish does.
func (c *Client) SetKey(ctx context.Context, channel, key string, data []byte) error {
	return c.publish(ctx, value(channel, key, data))
}

// DeleteKey removes a key of a map as soon as the client is connected. The client need not be subscribed. It fails as
// Publish does.
func (c *Client) DeleteKey(ctx context.Context, channel, key string) error {
	return c.publish(ctx, removal(channel, key))
}

func value(channel, key string, data []byte) *protocol.PublishRequest {
	return &protocol.PublishRequest{Channel: channel, Type: typeMap, Key: key, Data: data}
}

func removal(channel, key string) *protocol.PublishRequest {
	return &protocol.PublishRequest{Channel: channel, Type: typeMap, Key: key, Removed: true}
}

func (m *Map) write(ctx context.Context, r *protocol.PublishRequest) error {
	if err := m.Ready(ctx); err != nil {
		return err
	}
	m.c.mu.Lock()
	e := m.entries
	w := e.writes[r.Key]
	if w == nil {
		if e.pause > 0 {
			e.writes[r.Key] = new(write)
			time.AfterFunc(e.pause, func() { m.next(r.Key) })
		}
		m.c.mu.Unlock()
		return m.c.publish(ctx, r)
	}
	done := make(chan error, 1)
	w.next, w.waiting = r, append(w.waiting, done)
	m.c.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *Map) next(key string) {
	m.c.mu.Lock()
	e := m.entries
	w := e.writes[key]
	if w.next == nil {
		delete(e.writes, key)
		m.c.mu.Unlock()
		return
	}
	r, waiting := w.next, w.waiting
	w.next, w.waiting = nil, nil
	time.AfterFunc(e.pause, func() { m.next(key) })
	m.c.mu.Unlock()
	err := m.c.publish(context.Background(), r) // which Options.Timeout bounds
	for _, done := range waiting {
		done <- err
	}
}
