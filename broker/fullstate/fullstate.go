// Package fullstate is a broker whose channels show maps: each publication is a whole map, as a JSON array of [key,
// value] pairs in the order of the keys, for clients that need not know how a state changes. It belongs into a
// composition (package compose), beside the broker that keeps the maps.
package fullstate

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

const (
	defaultInterval = 250 * time.Millisecond
	// linger is how long a channel without subscribers keeps its epoch.
	linger = 30 * time.Second
)

var (
	errNotRunning = errors.New("full-state broker: not running")
	errRunTwice   = errors.New("full-state broker: already run or closed")
)

// Config of a broker. All functions may be called from any goroutine.
type Config struct {
	// Of returns the map that a channel shows; false refuses it with protocol.ErrorUnknownChannel. A channel keeps the
	// interval of its first subscriber.
	Of func(ch string) (Map, bool)
	// State reads a map, as broker.Maps does, with a negative limit.
	State func(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error)
	// Positions reads positions of maps that are not ephemeral, as broker.Traits.Positions does.
	Positions func(ctx context.Context, channels []string) []broker.PositionResult
	// Local: State waits for nothing but locks that are held briefly.
	Local bool
	// Log gets a line for a map that cannot be shown or read. Default slog.Default().
	Log *slog.Logger
}

// Map is what a channel shows.
type Map struct {
	// Channel of the map.
	Channel string
	// Ephemeral: the map has no positions, so that it is read in every interval.
	Ephemeral bool
	// Interval between two looks at the map. Changes within it make one publication. Default 250 ms.
	Interval time.Duration
}

// Broker shows maps. Each node makes publications for its own subscribers, under an epoch of its own, so a subscriber
// that comes to another node gets the state anew. Nothing can be published.
type Broker struct {
	cfg      Config
	handler  broker.EventHandler
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	watchers sync.WaitGroup

	mu       sync.Mutex
	running  bool
	channels map[string]*view
	// byInterval has the channels again; each interval has a goroutine.
	byInterval map[time.Duration]map[*view]struct{}
}

// New returns a broker. Of, State and Positions must be set.
func New(cfg Config) *Broker {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	b := &Broker{cfg: cfg, channels: make(map[string]*view), byInterval: make(map[time.Duration]map[*view]struct{})}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// Describe implements broker.Broker. It claims what concerns publishing as well, so that the composition may.
func (b *Broker) Describe() broker.Traits {
	return broker.Traits{
		Name: "full_state", Local: b.cfg.Local, History: true, Idempotency: true, Versions: true, Delta: true,
		Positions: b.positions,
	}
}

// Run implements broker.Broker.
func (b *Broker) Run(h broker.EventHandler) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.handler != nil || b.ctx.Err() != nil {
		return errRunTwice
	}
	b.handler, b.running = h, true
	return nil
}

// Subscribe implements broker.Broker.
func (b *Broker) Subscribe(_ context.Context, channels ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running {
		return errNotRunning
	}
	for _, ch := range channels {
		if v := b.channels[ch]; v != nil {
			v.left = time.Time{}
			continue
		}
		of, ok := b.cfg.Of(ch)
		if !ok {
			return protocol.ErrorUnknownChannel
		}
		b.add(newView(ch, of))
	}
	return nil
}

// add is called with the lock held.
func (b *Broker) add(v *view) {
	b.channels[v.channel] = v
	list := b.byInterval[v.of.Interval]
	if list == nil {
		list = make(map[*view]struct{})
		b.byInterval[v.of.Interval] = list
		b.watchers.Go(func() { b.watch(v.of.Interval) })
	}
	list[v] = struct{}{}
}

// Unsubscribe implements broker.Broker. The channel goes on for 30 s.
func (b *Broker) Unsubscribe(_ context.Context, channels ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running {
		return errNotRunning
	}
	for _, ch := range channels {
		if v := b.channels[ch]; v != nil && v.left.IsZero() {
			v.left = time.Now()
		}
	}
	return nil
}

// find makes a channel for the caller alone if it is not subscribed.
func (b *Broker) find(ch string) (*view, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running {
		return nil, errNotRunning
	}
	if v := b.channels[ch]; v != nil {
		return v, nil
	}
	of, ok := b.cfg.Of(ch)
	if !ok {
		return nil, protocol.ErrorUnknownChannel
	}
	return newView(ch, of), nil
}

// History implements broker.Broker. It has the newest state. A map that cannot be shown is protocol.ErrorLimitExceeded
// or protocol.ErrorNotAvailable.
func (b *Broker) History(ctx context.Context, ch string, filter broker.HistoryFilter) (broker.History, error) {
	v, err := b.find(ch)
	if err != nil {
		return broker.History{}, err
	}
	latest, top := v.latest()
	if latest == nil {
		if latest, top, err = b.first(ctx, v); err != nil {
			return broker.History{}, err
		}
	}
	h := broker.History{Top: top}
	since := filter.Since
	if filter.Limit != 0 && (since == nil || (latest.Offset > since.Offset) != filter.Reverse && latest.Offset != since.Offset) {
		h.Publications = []*channel.Publication{latest}
	}
	return h, nil
}

func (b *Broker) positions(ctx context.Context, channels []string, _ time.Duration) []broker.PositionResult {
	out := make([]broker.PositionResult, len(channels))
	for i, ch := range channels {
		b.mu.Lock()
		v := b.channels[ch]
		b.mu.Unlock()
		if v == nil {
			h, err := b.History(ctx, ch, broker.HistoryFilter{})
			out[i] = broker.PositionResult{Top: h.Top, Err: err}
			continue
		}
		if out[i].Err = v.delivering.lock(ctx); out[i].Err == nil {
			_, out[i].Top = v.latest()
			v.delivering.unlock()
		}
	}
	return out
}

// Publish implements broker.Broker: the map is what changes.
func (*Broker) Publish(context.Context, string, *channel.Publication, broker.PublishOptions) (broker.PublishResult, error) {
	return broker.PublishResult{}, protocol.ErrorNotAvailable
}

// PublishJoin implements broker.Broker: joins and leaves belong to the map.
func (*Broker) PublishJoin(context.Context, string, *channel.ClientInfo) error {
	return protocol.ErrorNotAvailable
}

// PublishLeave implements broker.Broker.
func (*Broker) PublishLeave(context.Context, string, *channel.ClientInfo) error {
	return protocol.ErrorNotAvailable
}

// RemoveHistory implements broker.Broker: the state stays as long as the map does.
func (*Broker) RemoveHistory(context.Context, string) error { return protocol.ErrorNotAvailable }

// Close implements broker.Broker.
func (b *Broker) Close(context.Context) error {
	b.mu.Lock()
	b.running = false
	b.mu.Unlock()
	b.stop()
	b.watchers.Wait()
	return nil
}

func newView(ch string, of Map) *view {
	if of.Interval <= 0 {
		of.Interval = defaultInterval
	}
	return &view{channel: ch, of: of, reading: newMutex(), delivering: newMutex(), epoch: rand.Text()}
}
