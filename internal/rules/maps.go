package rules

import (
	"context"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/reason"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// Maps returns m for the application: its changes are checked. m may be nil.
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

// ServerSubscribe checks the options of a subscription that the application makes for a client.
func (r *Rules) ServerSubscribe(ch string, o *channel.SubscribeOptions) error {
	if o.Type() != channel.TypeStream {
		return reason.ServerMap
	}
	return r.Subscribe(ch, o)
}

// noMaps are the maps of a broker that has none.
type noMaps struct{}

var errNoMaps = refusal.Because(protocol.ErrorNotAvailable, "Config.Broker", "the broker of the node has no maps")

func (noMaps) Change(context.Context, string, *channel.Publication, channel.MapOptions) (channel.MapResult, error) {
	return channel.MapResult{}, errNoMaps
}

func (noMaps) State(context.Context, string, channel.StateFilter) (channel.State, error) {
	return channel.State{}, errNoMaps
}

func (noMaps) Clear(context.Context, string) error { return errNoMaps }
