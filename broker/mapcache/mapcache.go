// Package mapcache keeps the maps that the clients of a node follow in the memory of the node, so that reading them asks
// the broker nothing.
//
// A channel is cached while the node is subscribed to it at the broker, because only then the broker delivers its
// changes. The first read of it loads the entries and the stream; from then on the cache applies each change before the
// node sees it. So the cache shows exactly the map at the position that it names, and a client that has got a change
// finds it in its next read.
//
// A read never shows less than an earlier read or change through the same cache: a read that comes before the delivery
// has caught up waits a moment and then asks the broker. Changes always go to the broker. So do reads that the cache
// cannot answer: reads of maps without entries (only the broker knows when their position ends), of ephemeral maps
// (their changes have no offsets), of channels that are not subscribed, of changes that are older than the cache
// remembers, and History without HistoryFilter.Since or with Limit 0, which nodes use to find out whether they have
// missed something.
//
// When the cache doubts a channel, it forgets the channel, and the next read loads it again. Reasons are a loss that the
// broker reports, a hole in the offsets, another epoch, Clear and RemoveHistory. A change that gets lost without a
// trace, and is the last one, is found by comparing positions with the broker once per Config.SyncInterval.
package mapcache

import (
	"container/list"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/channel"
)

// Config of a cache. The zero value has all defaults.
type Config struct {
	// IsMap tells which channels are maps. Any goroutine may call it. Default: channels are maps whose entries are read;
	// then History alone does not load a channel.
	IsMap func(ch string) bool
	// MaxChannels is the most channels that are kept, MaxBytes the memory that they may take, as estimated from keys,
	// data, tags and infos. Beyond that, the channels that were not read for the longest time go. A channel that would
	// take more than MaxBytes alone has fewer changes, and is not kept if its entries are too many. Defaults: 1,000 and
	// 256 MiB.
	MaxChannels int
	MaxBytes    int64
	// IdleTimeout is how long a channel without reads is kept. Default: 10 minutes.
	IdleTimeout time.Duration
	// StreamSize is the most changes of a channel that are kept, for as long as the channel is, whatever
	// MapOptions.StreamTTL says. Default: 10,000.
	StreamSize int
	// LoadTimeout bounds a load, and each reading of positions. Default: 5 s.
	LoadTimeout time.Duration
	// SyncInterval is the time between two comparisons with the positions at the broker. They are read in batches of
	// SyncBatchSize channels, SyncConcurrency batches at a time (channels, if the broker does not read positions in
	// batches). Defaults: 30 s, 1,000 and 64.
	SyncInterval    time.Duration
	SyncBatchSize   int
	SyncConcurrency int
	// Logger gets a line for each difference. Default: slog.Default().
	Logger *slog.Logger
}

// The defaults of Config.
const (
	DefaultMaxChannels     = 1000
	DefaultMaxBytes        = 256 << 20
	DefaultIdleTimeout     = 10 * time.Minute
	DefaultStreamSize      = 10_000
	DefaultLoadTimeout     = 5 * time.Second
	DefaultSyncInterval    = 30 * time.Second
	DefaultSyncBatchSize   = 1000
	DefaultSyncConcurrency = 64
)

func (c Config) withDefaults() Config {
	if c.IsMap == nil {
		c.IsMap = func(string) bool { return true }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.MaxChannels = enginekit.PositiveOr(c.MaxChannels, DefaultMaxChannels)
	c.MaxBytes = enginekit.PositiveOr(c.MaxBytes, DefaultMaxBytes)
	c.IdleTimeout = enginekit.PositiveOr(c.IdleTimeout, DefaultIdleTimeout)
	c.StreamSize = enginekit.PositiveOr(c.StreamSize, DefaultStreamSize)
	c.LoadTimeout = enginekit.PositiveOr(c.LoadTimeout, DefaultLoadTimeout)
	c.SyncInterval = enginekit.PositiveOr(c.SyncInterval, DefaultSyncInterval)
	c.SyncBatchSize = enginekit.PositiveOr(c.SyncBatchSize, DefaultSyncBatchSize)
	c.SyncConcurrency = enginekit.PositiveOr(c.SyncConcurrency, DefaultSyncConcurrency)
	return c
}

// New returns inner with a cache in front of its maps, and owns inner. It has the traits of inner, but is never local,
// and adds its metrics. A broker without maps is returned as it is.
func New(inner broker.Broker, cfg Config) broker.Broker {
	traits := inner.Describe()
	if traits.Maps == nil {
		return inner
	}
	c := &cache{
		knowsMaps: cfg.IsMap != nil,
		Broker:    inner, cfg: cfg.withDefaults(), maps: traits.Maps, positions: traits.Positions,
		subscribed: make(map[string]struct{}), table: make(map[string]*cachedMap),
	}
	c.limits = limits{c.cfg.StreamSize, c.cfg.MaxBytes}
	c.lifetime, c.end = context.WithCancel(context.Background())
	c.own = traits
	c.own.Local, c.own.Maps = false, cached{c}
	c.own.Metrics = func() []broker.Metric {
		var list []broker.Metric
		if traits.Metrics != nil {
			list = traits.Metrics()
		}
		return append(slices.Clip(list), c.metrics()...)
	}
	return c
}

type cache struct {
	broker.Broker
	cfg       Config
	knowsMaps bool        // Config.IsMap was given
	maps      broker.Maps // of the embedded broker, like positions
	positions func(ctx context.Context, channels []string, metaTTL time.Duration) []broker.PositionResult
	own       broker.Traits
	counters  counters
	limits    limits // of each channel

	lifetime   context.Context
	end        context.CancelFunc
	background sync.WaitGroup

	bytes atomic.Int64 // of all channels

	mu         sync.Mutex // may be held while the lock of a channel is taken, not the other way round
	closed     bool
	subscribed map[string]struct{} // maps
	table      map[string]*cachedMap
	recent     list.List // of *cachedMap; the one that was read last is at the front
}

func (c *cache) Describe() broker.Traits { return c.own }

func (c *cache) Run(h broker.EventHandler) error {
	if err := c.Broker.Run(&handler{EventHandler: h, cache: c}); err != nil {
		return err
	}
	c.background.Go(c.keepInSync)
	c.background.Go(func() {
		enginekit.Every(c.lifetime, min(max(c.cfg.IdleTimeout/10, 10*time.Millisecond), time.Minute), c.dropIdle)
	})
	return nil
}

func (c *cache) Close(ctx context.Context) error {
	c.end()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.dropWhere("", func(string) bool { return true })
	err := c.Broker.Close(ctx)
	c.background.Wait()
	return err
}

// Subscribe lets a channel be cached as soon as the broker delivers its changes.
func (c *cache) Subscribe(ctx context.Context, channels ...string) error {
	if err := c.Broker.Subscribe(ctx, channels...); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range channels {
		if _, ok := c.subscribed[ch]; !ok && c.cfg.IsMap(ch) {
			c.subscribed[strings.Clone(ch)] = struct{}{}
		}
	}
	return nil
}

// Unsubscribe forgets the channels before their changes stop.
func (c *cache) Unsubscribe(ctx context.Context, channels ...string) error {
	for _, ch := range channels {
		c.mu.Lock()
		delete(c.subscribed, ch)
		c.mu.Unlock()
		c.drop(ch, dropUnsubscribed)
	}
	return c.Broker.Unsubscribe(ctx, channels...)
}

func (c *cache) RemoveHistory(ctx context.Context, ch string) error {
	err := c.Broker.RemoveHistory(ctx, ch)
	c.drop(ch, dropCleared)
	return err
}

func (c *cache) History(ctx context.Context, ch string, filter broker.HistoryFilter) (broker.History, error) {
	if filter.Since != nil && filter.Limit != 0 && !filter.Reverse {
		m := c.use(ch, c.knowsMaps)
		if m != nil {
			if changes, ok := c.changesSince(ctx, m, &filter); ok {
				return changes, nil
			}
		}
		if m != nil || c.knowsMaps && c.cfg.IsMap(ch) {
			c.counters.misses.Add(1)
		}
	}
	h, err := c.Broker.History(ctx, ch, filter)
	if err == nil {
		c.noteRead(ch, h.Top)
	}
	return h, err
}

type cached struct{ *cache }

func (c cached) Change(ctx context.Context, ch string, pub *channel.Publication, opts channel.MapOptions) (channel.MapResult, error) {
	result, err := c.maps.Change(ctx, ch, pub, opts)
	if err == nil {
		c.noteRead(ch, result.Position)
	}
	return result, err
}

func (c cached) State(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error) {
	if h := c.use(ch, true); h != nil {
		if s, ok := c.page(ctx, h, &filter); ok {
			return s, nil
		}
	}
	c.counters.misses.Add(1)
	s, err := c.maps.State(ctx, ch, filter)
	if err == nil {
		c.noteRead(ch, s.Top)
	}
	return s, err
}

func (c cached) Clear(ctx context.Context, ch string) error {
	err := c.maps.Clear(ctx, ch)
	c.drop(ch, dropCleared)
	return err
}

type handler struct {
	broker.EventHandler
	cache *cache
}

func (h *handler) HandlePublication(ch string, e broker.PublicationEvent) {
	h.cache.update(ch, &e)
	h.EventHandler.HandlePublication(ch, e)
}

func (h *handler) HandleLoss(match func(ch string) bool) {
	h.cache.dropWhere(dropLoss, match)
	h.EventHandler.HandleLoss(match)
}
