package fullstate

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

const (
	// maxSize bounds a state, in bytes of JSON.
	maxSize = 1 << 20
	// readers is how many maps of an interval are read at a time.
	readers = 16
	// readTimeout bounds one look at the channels of an interval.
	readTimeout = 10 * time.Second
)

// shown is a channel and the state that it shows.
type shown struct {
	channel string
	of      Map
	// left is when the last subscriber left; zero while there is one. The lock of the broker protects it.
	left time.Time

	// reading is held to read the map and to take the state over; it protects at and unfit.
	reading lock
	at      channel.StreamPosition // of the map that the state is from
	unfit   error                  // why the map cannot be shown, or nil
	// turn is held from before the state is taken over until the handler has it. It is taken after reading, never by
	// History, which must not wait for the handler.
	turn lock

	mu     sync.Mutex // held briefly; protects what follows
	pub    *channel.Publication
	offset uint64
	epoch  string
}

// latest returns the newest state, nil if there is none, and its position.
func (s *shown) latest() (*channel.Publication, channel.StreamPosition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pub, channel.StreamPosition{Offset: s.offset, Epoch: s.epoch}
}

// lock is a mutex whose caller stops waiting when its context ends.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) enter(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l lock) leave() { <-l }

// take makes data the newest state, and returns the publications before and now.
func (s *shown) take(data []byte) (prev, pub *channel.Publication, epoch string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prev = s.pub
	s.offset++
	s.pub = &channel.Publication{Data: data, Offset: s.offset, Time: time.Now().UnixMilli(), Checked: true}
	return prev, s.pub, s.epoch
}

// drop ends the stream of a map that cannot be shown any more. The caller has reading.
func (s *shown) drop() (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unfit == nil || s.pub == nil {
		return false
	}
	s.pub, s.offset, s.epoch = nil, 0, rand.Text()
	return true
}

// first returns the state of a channel, which has none yet unless another caller was first.
func (b *Broker) first(ctx context.Context, s *shown) (*channel.Publication, channel.StreamPosition, error) {
	if err := s.reading.enter(ctx); err != nil {
		return nil, channel.StreamPosition{}, err
	}
	defer s.reading.leave()
	latest, top := s.latest()
	if latest != nil {
		return latest, top, nil
	}
	data, err := b.read(ctx, s)
	if err != nil {
		return nil, channel.StreamPosition{}, err
	}
	s.take(data)
	latest, top = s.latest()
	return latest, top, nil
}

// read reads the map. The caller has entered.
func (b *Broker) read(ctx context.Context, s *shown) ([]byte, error) {
	state, err := b.cfg.State(ctx, s.of.Channel, channel.StateFilter{Limit: -1})
	if err != nil {
		return nil, err
	}
	s.at = state.Top
	var data []byte
	data, s.unfit = encode(state.Entries)
	if s.unfit != nil {
		b.cfg.Log.Warn("a map cannot be shown as a whole: its full-state channel has no state",
			"channel", s.channel, "map", s.of.Channel, "error", s.unfit)
	}
	return data, s.unfit
}

// null stands for an entry without data.
var null = []byte("null")

// encode returns the entries as a JSON array. The error says which entry cannot be a part of it, or that there are too
// many.
func encode(entries []*channel.Publication) ([]byte, error) {
	size := len("[]")
	for _, e := range entries {
		size += len(e.Key) + len(e.Data) + len(`["",],`)
	}
	if size > maxSize {
		return nil, fmt.Errorf("%d entries of %d bytes, the limit is %d: %w", len(entries), size, maxSize, protocol.ErrorLimitExceeded)
	}
	data := append(make([]byte, 0, size+size/16), '[')
	for _, e := range entries {
		data = append(jsonwire.AppendString(append(data, '['), e.Key), ',')
		value := e.Data
		if len(value) == 0 {
			value = null
		}
		var err error
		if data, err = jsonwire.AppendRaw(data, value); err != nil {
			return nil, fmt.Errorf("key %q: %w: %w", e.Key, err, protocol.ErrorNotAvailable)
		}
		data = append(data, "],"...)
	}
	return jsonwire.EndArray(data), nil
}

// beat looks at the maps of an interval until there is none.
func (b *Broker) beat(interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-ticker.C:
		}
		list := b.due(interval)
		if len(list) == 0 {
			return
		}
		b.look(list)
	}
}

// due returns the channels of an interval, and forgets channels that have had no subscriber for a while. With the last one
// the interval ends.
func (b *Broker) due(interval time.Duration) []*shown {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.byInterval[interval]
	list := make([]*shown, 0, len(all))
	for s := range all {
		if !s.left.IsZero() && time.Since(s.left) >= linger {
			delete(all, s)
			delete(b.channels, s.channel)
			continue
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		delete(b.byInterval, interval)
	}
	return list
}

// look renews the channels whose maps have changed.
func (b *Broker) look(list []*shown) {
	ctx, cancel := context.WithTimeout(b.ctx, readTimeout)
	defer cancel()
	changed := b.changed(ctx, list)
	next := make(chan *shown)
	var done sync.WaitGroup
	for range min(readers, len(changed)) {
		done.Go(func() {
			for s := range next {
				b.renew(ctx, s)
			}
		})
	}
	for _, s := range changed {
		next <- s
	}
	close(next)
	done.Wait()
}

// changed returns the channels whose maps have another position than before, or none.
func (b *Broker) changed(ctx context.Context, list []*shown) []*shown {
	var changed, ask []*shown
	var maps []string
	for _, s := range list {
		if s.of.Ephemeral {
			changed = append(changed, s)
			continue
		}
		ask, maps = append(ask, s), append(maps, s.of.Channel)
	}
	if len(ask) == 0 {
		return changed
	}
	for i, p := range b.cfg.Positions(ctx, maps) {
		if p.Err != nil {
			b.failed(ask[i], p.Err)
			continue
		}
		if ask[i].reading.enter(ctx) != nil {
			break
		}
		if p.Top != ask[i].at {
			changed = append(changed, ask[i])
		}
		ask[i].reading.leave()
	}
	return changed
}

// renew reads the map of a channel, and hands the state over if it is another one. A map that cannot be shown any
// more ends the stream, so that subscribers come back and are told why.
func (b *Broker) renew(ctx context.Context, s *shown) {
	if s.reading.enter(ctx) != nil {
		return
	}
	data, err := b.read(ctx, s)
	if latest, _ := s.latest(); err == nil && (latest == nil || !bytes.Equal(latest.Data, data)) && s.turn.enter(b.ctx) == nil {
		prev, pub, epoch := s.take(data)
		s.reading.leave()
		if b.wanted(s) {
			b.handler.HandlePublication(s.channel, broker.PublicationEvent{Pub: pub, Epoch: epoch, Delta: true, Prev: prev})
		}
		s.turn.leave()
		return
	}
	lost, unfit := s.drop(), s.unfit != nil
	s.reading.leave()
	switch {
	case lost:
		b.handler.HandleLoss(func(ch string) bool { return ch == s.channel })
	case err != nil && !unfit:
		b.failed(s, err)
	}
}

// wanted tells whether a channel has subscribers.
func (b *Broker) wanted(s *shown) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return s.left.IsZero()
}

func (b *Broker) failed(s *shown, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	b.cfg.Log.Warn("a map could not be read: its full-state channel keeps the state that it had", "channel", s.channel, "map", s.of.Channel, "error", err)
}
