package engines

import (
	"context"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/observe"
)

// meterMaps counts the calls of m, and its changes as events that were sent. Nil stays nil.
func meterMaps(m broker.Maps, t *Meter) broker.Maps {
	if m == nil {
		return nil
	}
	return &meteredMaps{m, t}
}

type meteredMaps struct {
	broker.Maps
	meter *Meter
}

func event(p *channel.Publication) observe.Event {
	switch {
	case p.Key == "":
		return observe.EventPublication
	case p.Removed:
		return observe.EventMapRemoval
	}
	return observe.EventMapPublication
}

func (m *meteredMaps) Change(ctx context.Context, ch string, pub *channel.Publication, opts channel.MapOptions) (channel.MapResult, error) {
	sent, action := event(pub), observe.ActionMapPublish // pub is the broker's afterwards
	if pub.Removed {
		action = observe.ActionMapRemove
	}
	m.meter.Action(action, ch, 1)
	r, err := m.Maps.Change(ctx, ch, pub, opts)
	m.meter.suppressed(sent, ch, r.Suppressed)
	if err == nil && r.Suppressed == "" {
		m.meter.sent(sent, ch)
	}
	return r, err
}

func (m *meteredMaps) State(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error) {
	action := observe.ActionMapStateRead
	if filter == (channel.StateFilter{}) {
		action = observe.ActionMapStats
	}
	m.meter.Action(action, ch, 1)
	return m.Maps.State(ctx, ch, filter)
}

func (m *meteredMaps) Clear(ctx context.Context, ch string) error {
	m.meter.Action(observe.ActionMapClear, ch, 1)
	return m.Maps.Clear(ctx, ch)
}
