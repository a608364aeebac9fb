// Package validate checks what the application gives a node: options that contradict each other or the channel, and
// payloads that clients could not read. The errors are for the programmer: they name channel, fields, and the setting
// that would allow the value.
package validate

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/clocks"
	"github.com/gyrohq/gyro/internal/guard"
)

// Rules of a node. The exported fields are constant. Any goroutine may call the methods.
type Rules struct {
	// Channel and Binary as in gyro.Config.
	Channel func(ch string) channel.Options
	Binary  bool
	// Tracked reports whether this node has positioned subscribers of a channel.
	Tracked func(ch string) bool
	// Clocks give publications their times.
	Clocks *clocks.Clocks
	Log    *slog.Logger

	warned guard.PerMinute
}

// Publish checks the options of a publication. Options that name no history get the channel's. json tells whether the
// payload must be JSON (Payload).
func (r *Rules) Publish(ch string, o *channel.PublishOptions) (json bool, err error) {
	json = !r.Binary
	if r.Channel != nil {
		if json, err = r.complete(ch, o); err != nil {
			return false, err
		}
	}
	if why := contradiction(o); why != "" {
		return false, fmt.Errorf("gyro: channel %q: PublishOptions: %s", ch, why)
	}
	if json && o.Info != nil {
		if err = info(ch, "PublishOptions.Info", o.Info); err != nil {
			return false, err
		}
	}
	if o.HistorySize == 0 && !o.SkipHistory && r.Channel == nil && r.Tracked(ch) && r.warned.Allow(ch) {
		r.Log.Warn("a publication without history went to a channel with recoverable or positioned subscribers: those who are away lose it",
			"channel", ch, "key", "Config.Channel")
	}
	return json, nil
}

func (r *Rules) complete(ch string, o *channel.PublishOptions) (json bool, err error) {
	of, err := r.options(ch)
	if o.HistorySize == 0 && o.HistoryTTL == 0 && !o.SkipHistory {
		o.HistorySize, o.HistoryTTL = of.HistorySize, of.HistoryTTL
	}
	o.HistoryMetaTTL = cmp.Or(o.HistoryMetaTTL, of.HistoryMetaTTL)
	return !of.Binary, err
}

// contradiction describes a mistake in the options of a publication; "" for none.
func contradiction(o *channel.PublishOptions) string {
	if o.SkipHistory {
		if o.HistorySize != 0 || o.HistoryTTL != 0 {
			return fmt.Sprintf("SkipHistory contradicts HistorySize (%d) and HistoryTTL (%v)", o.HistorySize, o.HistoryTTL)
		}
		return ""
	}
	if why := history(o.HistorySize, o.HistoryTTL, o.HistoryMetaTTL); why != "" {
		return why
	}
	switch {
	case o.Delta && !o.Kept():
		return "Delta needs history: HistorySize and HistoryTTL are 0, and Config.Channel gives none"
	case o.Version > 0 && !o.Kept():
		return "Version needs history: HistorySize and HistoryTTL are 0, and Config.Channel gives none"
	case o.IdempotencyTTL < 0:
		return fmt.Sprintf("IdempotencyTTL (%v) must not be negative", o.IdempotencyTTL)
	case o.IdempotencyTTL > 0 && o.IdempotencyKey == "":
		return fmt.Sprintf("IdempotencyTTL (%v) needs IdempotencyKey", o.IdempotencyTTL)
	}
	return ""
}

// history describes a mistake in the options of a history; "" for none.
func history(size int, ttl, metaTTL time.Duration) string {
	switch {
	case size < 0:
		return fmt.Sprintf("HistorySize (%d) must not be negative", size)
	case ttl < 0:
		return fmt.Sprintf("HistoryTTL (%v) must not be negative", ttl)
	case metaTTL < 0:
		return fmt.Sprintf("HistoryMetaTTL (%v) must not be negative", metaTTL)
	case (size == 0) != (ttl == 0):
		return fmt.Sprintf("HistorySize (%d) and HistoryTTL (%v) must both be set, or neither", size, ttl)
	case metaTTL > 0 && metaTTL < ttl:
		return fmt.Sprintf("HistoryMetaTTL (%v) must be at least HistoryTTL (%v)", metaTTL, ttl)
	}
	return ""
}

// Subscribe checks the options of a subscription and the payloads in them.
func (r *Rules) Subscribe(ch string, o *channel.SubscribeOptions) error {
	of, err := r.options(ch)
	if err != nil {
		return err
	}
	if why := r.misfit(o, of); why != "" {
		return fmt.Errorf("gyro: channel %q: SubscribeOptions: %s", ch, why)
	}
	if of.Binary {
		return nil
	}
	if err := cmp.Or(check(ch, "SubscribeOptions.Data", o.Data), check(ch, "SubscribeOptions.ChanInfo", o.ChanInfo)); err != nil {
		return err
	}
	return publications(ch, "SubscribeOptions.Publications", o.Publications)
}

func mapMisfit(m *channel.MapSubscription) string {
	switch {
	case m.Kind < channel.MapData || m.Kind > channel.MapUsers:
		return fmt.Sprintf("Map.Kind (%d) is none of MapData, MapClients and MapUsers", m.Kind)
	case m.PageSize < 0 || m.MinPageSize < 0 || m.MaxPageSize < 0 || m.LiveLimit < 0:
		return fmt.Sprintf("Map: PageSize (%d), MinPageSize (%d), MaxPageSize (%d) and LiveLimit (%d) must not be negative",
			m.PageSize, m.MinPageSize, m.MaxPageSize, m.LiveLimit)
	case m.MaxPageSize > 0 && m.MinPageSize > m.MaxPageSize:
		return fmt.Sprintf("Map.MinPageSize (%d) must be at most MaxPageSize (%d)", m.MinPageSize, m.MaxPageSize)
	}
	return ""
}

const maxDebounce = time.Hour

func pollMisfit(p *channel.SharedPoll) string {
	switch {
	case p.Poll == nil:
		return "Poll.Poll is required"
	case p.Interval < 0 || p.MaxInterval < 0 || p.Timeout < 0 || p.KeyGrace < 0:
		return fmt.Sprintf("Poll: Interval (%v), MaxInterval (%v), Timeout (%v) and KeyGrace (%v) must not be negative",
			p.Interval, p.MaxInterval, p.Timeout, p.KeyGrace)
	case p.BatchSize < 0 || p.MaxKeys < 0:
		return fmt.Sprintf("Poll: BatchSize (%d) and MaxKeys (%d) must not be negative", p.BatchSize, p.MaxKeys)
	case p.NotifyDelay < 0 || p.NotifyBatch < 0:
		return fmt.Sprintf("Poll: NotifyDelay (%v) and NotifyBatch (%d) must not be negative", p.NotifyDelay, p.NotifyBatch)
	}
	return ""
}

// misfit describes a mistake; "" for none.
func (r *Rules) misfit(o *channel.SubscribeOptions, of channel.Options) string {
	const none = " needs history, and Config.Channel gives the channel none: its HistorySize and HistoryTTL are 0"
	known := r.Channel != nil && of.HistorySize == 0
	switch {
	case o.PublishDebounce < 0 || o.PublishDebounce > maxDebounce:
		return fmt.Sprintf("PublishDebounce (%v) must not be negative, nor more than %v", o.PublishDebounce, maxDebounce)
	case o.BatchFlushLatest && o.BatchMaxDelay <= 0 && o.BatchMaxSize <= 0:
		return "BatchFlushLatest needs BatchMaxDelay or BatchMaxSize"
	case o.Map != nil && o.Poll != nil:
		return "Map contradicts Poll"
	case o.Map != nil:
		return mapMisfit(o.Map)
	case o.Poll != nil:
		return pollMisfit(o.Poll)
	}
	switch {
	case known && o.Recoverable:
		return "Recoverable" + none
	case known && o.Positioned:
		return "Positioned" + none
	case o.AutoRecover && !o.Recoverable:
		return "AutoRecover needs Recoverable"
	case o.AutoRecover && o.RecoveryMode != channel.RecoverCache:
		return "AutoRecover needs the RecoveryMode RecoverCache"
	case o.RecoverSince != nil && !o.Recoverable:
		return "RecoverSince needs Recoverable"
	case o.HistoryMetaTTL < 0:
		return fmt.Sprintf("HistoryMetaTTL (%v) must not be negative", o.HistoryMetaTTL)
	}
	return ""
}

// MetaTTL is HistoryMetaTTL of a channel.
func (r *Rules) MetaTTL(ch string) time.Duration {
	of, _ := r.options(ch)
	return of.HistoryMetaTTL
}

func (r *Rules) options(ch string) (channel.Options, error) {
	if r.Channel == nil {
		return channel.Options{Binary: r.Binary}, nil
	}
	of := r.Channel(ch)
	if why := history(of.HistorySize, of.HistoryTTL, of.HistoryMetaTTL); why != "" {
		return channel.Options{}, fmt.Errorf("gyro: channel %q: Config.Channel: %s", ch, why)
	}
	of.Binary = of.Binary || r.Binary
	return of, nil
}
