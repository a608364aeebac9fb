package simulation

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/compose"
	"github.com/gyrohq/gyro/broker/fullstate"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/channel"
)

// whole begins the name of a channel whose publications are the whole map whose name follows.
const whole = "whole:"

// compose puts a cache of maps, and channels that show whole maps, in front of a node's engine, if the plan has them.
func (r *run) compose(e gyro.Engine, cfg *gyro.Config) {
	shown := slices.ContainsFunc(r.plan.Names, func(ch string) bool { return strings.HasPrefix(ch, whole) })
	if !shown && !r.plan.Cached {
		return
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	b := e.Broker()
	presence := b.Describe().Presence
	if r.plan.Cached {
		b = mapcache.New(b, mapcache.Config{
			IsMap:        func(ch string) bool { o := kindOf(ch).changes; return o != nil && !o.Ephemeral() },
			SyncInterval: 4 * time.Second, LoadTimeout: time.Second, StreamSize: 30, Logger: quiet,
		})
	}
	if shown {
		b = compose.NewBroker(func(ch string) int {
			if strings.HasPrefix(ch, whole) {
				return 1
			}
			return 0
		}, b, wholes(b, quiet))
	}
	cfg.Engine, cfg.Broker, cfg.Presence = nil, b, presence
}

func wholes(of broker.Broker, log *slog.Logger) broker.Broker {
	return fullstate.New(fullstate.Config{
		Of: func(ch string) (fullstate.Map, bool) {
			name, ok := strings.CutPrefix(ch, whole)
			return fullstate.Map{Channel: name, Ephemeral: ok && kindOf(name).changes.Ephemeral()}, ok
		},
		State: of.Describe().Maps.State,
		Positions: func(ctx context.Context, channels []string) []broker.PositionResult {
			out := make([]broker.PositionResult, len(channels))
			for i, ch := range channels {
				h, err := of.History(ctx, ch, channel.HistoryFilter{})
				out[i] = broker.PositionResult{Top: h.Top, Err: err}
			}
			return out
		},
		Log: log,
	})
}

// wholeMap is what a channel that shows a map has as its newest publication.
func wholeMap(entries map[string]string) string {
	parts := []string{}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		parts = append(parts, fmt.Sprintf("[%q,%s]", key, entries[key]))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// shows compares the publications that show a map, in the end, with its entries.
func (b *book) shows(ch string, entries map[string]string) {
	want := wholeMap(entries)
	for k, s := range b.subs {
		if k[1] == whole+ch && s.active && s.data != want {
			b.fail("%s: %s shows %s, the map is %s", k[0], k[1], s.data, want)
		}
	}
}
