package fullstate

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

const (
	// maxSize is in bytes of JSON.
	maxSize = 1 << 20
	// readers maps of an interval are read at a time.
	readers = 16
	// readTimeout is for all channels of an interval.
	readTimeout = 10 * time.Second
)

type view struct {
	channel string
	of      Map
	// left is when the last subscriber left; zero while there is one. The lock of the broker guards it.
	left time.Time

	// reading is held to read the map and to replace the state; it guards at and invalid.
	reading mutex
	at      channel.StreamPosition // of the map that the state is from
	invalid error                  // why the map cannot be shown, or nil
	// delivering is held from before the state is replaced until the handler has it. It is taken after reading, never by
	// History, which must not wait for the handler.
	delivering mutex

	mu     sync.Mutex // held briefly; protects what follows
	pub    *channel.Publication
	offset uint64
	epoch  string
}

func (v *view) latest() (*channel.Publication, channel.StreamPosition) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pub, channel.StreamPosition{Offset: v.offset, Epoch: v.epoch}
}

// mutex is a lock whose caller stops waiting when its context ends.
type mutex chan struct{}

func newMutex() mutex { return make(mutex, 1) }

func (m mutex) lock(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m mutex) unlock() { <-m }

// replace returns the publications before and now.
func (v *view) replace(data []byte) (prev, pub *channel.Publication, epoch string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	prev = v.pub
	v.offset++
	v.pub = &channel.Publication{Data: data, Offset: v.offset, Time: time.Now().UnixMilli(), Checked: true}
	return prev, v.pub, v.epoch
}

// end ends a stream that cannot go on. The caller has reading.
func (v *view) end() (ended bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.invalid == nil || v.pub == nil {
		return false
	}
	v.pub, v.offset, v.epoch = nil, 0, rand.Text()
	return true
}

func (b *Broker) first(ctx context.Context, v *view) (*channel.Publication, channel.StreamPosition, error) {
	if err := v.reading.lock(ctx); err != nil {
		return nil, channel.StreamPosition{}, err
	}
	defer v.reading.unlock()
	latest, top := v.latest()
	if latest != nil {
		return latest, top, nil
	}
	data, err := b.read(ctx, v)
	if err != nil {
		return nil, channel.StreamPosition{}, err
	}
	v.replace(data)
	latest, top = v.latest()
	return latest, top, nil
}

// read is called with reading held.
func (b *Broker) read(ctx context.Context, v *view) ([]byte, error) {
	state, err := b.cfg.State(ctx, v.of.Channel, channel.StateFilter{Limit: -1})
	if err != nil {
		return nil, err
	}
	v.at = state.Top
	var data []byte
	data, v.invalid = encode(state.Entries)
	if v.invalid != nil {
		b.cfg.Log.Warn("a map cannot be shown as a whole: its full-state channel has no state",
			"channel", v.channel, "map", v.of.Channel, "error", v.invalid)
	}
	return data, v.invalid
}

var null = []byte("null")

// encode: the error says which entry cannot be in a JSON array, or that there are too many.
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

func (b *Broker) watch(interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-ticker.C:
		}
		list := b.active(interval)
		if len(list) == 0 {
			return
		}
		b.refresh(list)
	}
}

// active forgets channels that have had no subscriber for a while, and with the last one the interval. The others are in
// the order of their names.
func (b *Broker) active(interval time.Duration) []*view {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.byInterval[interval]
	list := make([]*view, 0, len(all))
	for v := range all {
		if !v.left.IsZero() && time.Since(v.left) >= linger {
			delete(all, v)
			delete(b.channels, v.channel)
			continue
		}
		list = append(list, v)
	}
	if len(list) == 0 {
		delete(b.byInterval, interval)
	}
	slices.SortFunc(list, func(a, b *view) int { return strings.Compare(a.channel, b.channel) })
	return list
}

func (b *Broker) refresh(list []*view) {
	ctx, cancel := context.WithTimeout(b.ctx, readTimeout)
	defer cancel()
	changed := b.changed(ctx, list)
	next := make(chan *view)
	var done sync.WaitGroup
	for range min(readers, len(changed)) {
		done.Go(func() {
			for v := range next {
				b.renew(ctx, v)
			}
		})
	}
	for _, v := range changed {
		next <- v
	}
	close(next)
	done.Wait()
}

func (b *Broker) changed(ctx context.Context, list []*view) []*view {
	var changed, ask []*view
	var maps []string
	for _, v := range list {
		if v.of.Ephemeral {
			changed = append(changed, v)
			continue
		}
		ask, maps = append(ask, v), append(maps, v.of.Channel)
	}
	if len(ask) == 0 {
		return changed
	}
	for i, p := range b.cfg.Positions(ctx, maps) {
		if p.Err != nil {
			b.failed(ask[i], p.Err)
			continue
		}
		if ask[i].reading.lock(ctx) != nil {
			break
		}
		if p.Top != ask[i].at {
			changed = append(changed, ask[i])
		}
		ask[i].reading.unlock()
	}
	return changed
}

// renew ends the stream of a map that cannot be shown any more, so that subscribers come back and are told why.
func (b *Broker) renew(ctx context.Context, v *view) {
	if v.reading.lock(ctx) != nil {
		return
	}
	data, err := b.read(ctx, v)
	if err != nil {
		ended, invalid := v.end(), v.invalid != nil
		v.reading.unlock()
		if ended {
			b.handler.HandleLoss(func(ch string) bool { return ch == v.channel })
		} else if !invalid {
			b.failed(v, err)
		}
		return
	}
	latest, _ := v.latest()
	if latest != nil && bytes.Equal(latest.Data, data) || v.delivering.lock(b.ctx) != nil {
		v.reading.unlock()
		return
	}
	prev, pub, epoch := v.replace(data)
	v.reading.unlock()
	if b.hasSubscribers(v) {
		b.handler.HandlePublication(v.channel, broker.PublicationEvent{Pub: pub, Epoch: epoch, Delta: true, Prev: prev})
	}
	v.delivering.unlock()
}

func (b *Broker) hasSubscribers(v *view) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return v.left.IsZero()
}

func (b *Broker) failed(v *view, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	b.cfg.Log.Warn("a map could not be read: its full-state channel keeps the state that it had", "channel", v.channel, "map", v.of.Channel, "error", err)
}
