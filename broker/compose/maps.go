package compose

import (
	"context"
	"slices"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// maps is Traits.Maps.
type maps struct{ *composition }

func haveMaps(engines []broker.Traits) bool {
	return slices.ContainsFunc(engines, func(t broker.Traits) bool { return t.Maps != nil })
}

func (m maps) of(ch string) (broker.Maps, error) {
	if its := m.traits[m.composition.of(ch)].Maps; its != nil {
		return its, nil
	}
	return nil, protocol.ErrorNotAvailable
}

func (m maps) Change(ctx context.Context, ch string, pub *channel.Publication, opts channel.MapOptions) (channel.MapResult, error) {
	its, err := m.of(ch)
	if err != nil {
		return channel.MapResult{}, err
	}
	return its.Change(ctx, ch, pub, opts)
}

func (m maps) State(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error) {
	its, err := m.of(ch)
	if err != nil {
		return channel.State{}, err
	}
	return its.State(ctx, ch, filter)
}

func (m maps) Clear(ctx context.Context, ch string) error {
	its, err := m.of(ch)
	if err != nil {
		return err
	}
	return its.Clear(ctx, ch)
}
