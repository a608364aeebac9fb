package validate

import (
	"context"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// Maps returns m, which may be nil, with checks of its changes.
func (r *Rules) Maps(m broker.Maps) broker.Maps {
	if m == nil {
		return noMaps{}
	}
	return &checkedMaps{m, r}
}

type checkedMaps struct {
	broker.Maps
	rules *Rules
}

func (m *checkedMaps) Change(ctx context.Context, ch string, pub *channel.Publication, opts channel.MapOptions) (channel.MapResult, error) {
	if ch == "" || pub.Key == "" {
		return channel.MapResult{}, protocol.ErrorBadRequest
	}
	if opts.Ephemeral() {
		if err := m.rules.ephemeral(ch, pub, &opts); err != nil {
			return channel.MapResult{}, err
		}
	}
	of, err := m.rules.options(ch)
	if err == nil && !of.Binary {
		if !pub.Checked {
			pub.Checked, err = Payload(ch, pub.Data)
		}
		if err == nil {
			err = info(ch, "Publication.Info", pub.Info)
		}
	}
	if err != nil {
		return channel.MapResult{}, err
	}
	if pub.Time == 0 {
		pub.Time = m.rules.Clocks.Stamp()
	}
	return m.Maps.Change(ctx, ch, pub, opts)
}

func (r *Rules) ephemeral(ch string, pub *channel.Publication, o *channel.MapOptions) error {
	const none = "MapOptions have no StreamSize and StreamTTL, so the map keeps no changes: "
	switch {
	case o.KeyTTL <= 0:
		return refusal.Because(protocol.ErrorBadRequest, "MapOptions.KeyTTL", none+"it needs a KeyTTL, or both of them")
	case o.Expected != nil:
		return refusal.Because(protocol.ErrorBadRequest, "MapOptions.StreamSize", none+"Expected needs both of them")
	case pub.Version > 0:
		return refusal.Because(protocol.ErrorBadRequest, "MapOptions.StreamSize", none+"Publication.Version needs both of them")
	case r.Tracked(ch) && r.warned.Allow(ch):
		r.Log.Warn("a change that a map does not keep went to subscribers that recover: MapSubscription.Ephemeral is not set, and those who are away lose it",
			"channel", ch, "key", "MapOptions.StreamSize")
	}
	return nil
}

// ServerSubscribe checks a subscription that the application makes for a client.
func (r *Rules) ServerSubscribe(ch string, o *channel.SubscribeOptions) error {
	if o.Type() != channel.TypeStream {
		return session.ErrServerMap
	}
	return r.Subscribe(ch, o)
}

type noMaps struct{}

var errNoMaps = refusal.Because(protocol.ErrorNotAvailable, "Config.Broker", "the broker of the node has no maps")

func (noMaps) Change(context.Context, string, *channel.Publication, channel.MapOptions) (channel.MapResult, error) {
	return channel.MapResult{}, errNoMaps
}

func (noMaps) State(context.Context, string, channel.StateFilter) (channel.State, error) {
	return channel.State{}, errNoMaps
}

func (noMaps) Clear(context.Context, string) error { return errNoMaps }
