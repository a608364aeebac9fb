package compose

import (
	"context"
	"slices"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// maps is Traits.Maps of a composition if some engine has maps.
type maps struct{ *composition }

// haveMaps reports whether some engine has maps.
func haveMaps(engines []broker.Traits) bool {
	return slices.ContainsFunc(engines, func(t broker.Traits) bool { return t.Maps != nil })
}

// of returns the maps of a channel's engine.
func (m maps) of(ch string) (broker.Maps, error) {
	if its := m.traits[m.composition.of(ch)].Maps; its != nil {
		return its, nil
	}
	return nil, protocol.ErrorNotAvailable
}

// Change implements broker.Maps.
func (m maps) Change(ctx context.Context, ch string, pub *channel.Publication, opts channel.MapOptions) (channel.MapResult, error) {
	its, err := m.of(ch)
	if err != nil {
		return channel.MapResult{}, err
	}
	return its.Change(ctx, ch, pub, opts)
}

// State implements broker.Maps.
func (m maps) State(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error) {
	its, err := m.of(ch)
	if err != nil {
		return channel.State{}, err
	}
	return its.State(ctx, ch, filter)
}

// Clear implements broker.Maps.
func (m maps) Clear(ctx context.Context, ch string) error {
	its, err := m.of(ch)
	if err != nil {
		return err
	}
	return its.Clear(ctx, ch)
}
