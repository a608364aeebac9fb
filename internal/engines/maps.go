package engines

import (
	"context"
	"errors"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

var errNoMaps = errors.New("the broker has no maps")

// Page reads a page of a map for a client.
func (g *Engines) Page(ctx context.Context, o Owner, e *effect.Page) {
	e.Err = safely(o, func() (err error) {
		switch {
		case g.Maps == nil:
			return errNoMaps
		case e.Changes == nil:
			e.State, err = g.Maps.State(ctx, e.Channel, e.StateFilter)
		default:
			f := *e.Changes
			f.MetaTTL = g.metaTTL(e.Channel, f.MetaTTL)
			g.meter.Action(observe.ActionMapStreamRead, e.Channel, 1)
			e.History, err = g.Streams.History(ctx, e.Channel, f)
		}
		return err
	})
	if e.Err != nil {
		o.Failed("reading a map", e.Channel, e.Err)
	}
}

// errStreamless is the error for a subscriber that would go on with entries that may be stale.
var errStreamless = refusal.Because(protocol.ErrorUnrecoverablePosition, "MapSubscription.Ephemeral",
	"the map has entries and no changes: its MapOptions have no StreamSize and StreamTTL, but MapSubscription.Ephemeral is not set")

// streamless returns errStreamless if a map has entries but never had a change in its stream: they were set by changes
// of an ephemeral map, which no client can recover.
func (g *Engines) streamless(ctx context.Context, ch string) error {
	if g.Maps == nil {
		return nil
	}
	s, err := g.Maps.State(ctx, ch, channel.StateFilter{})
	if err == nil && s.Top.Offset == 0 && s.Count > 0 {
		err = errStreamless
	}
	return err
}

// Appear sets or renews the entries of a client in maps that list the clients of a channel.
func (g *Engines) Appear(ctx context.Context, who *channel.ClientInfo, in []channel.PresenceMap) error {
	for _, m := range in {
		pub := &channel.Publication{Key: who.Client, Info: who}
		switch {
		case m.Kind == channel.MapUsers && who.User == "", m.Kind == channel.MapData:
			continue
		case m.Kind == channel.MapUsers:
			pub.Key, pub.Info = who.User, nil
		}
		o := m.Options
		o.KeyMode, o.RefreshTTL, o.MaxEntries = channel.KeyIfNew, true, 0 // no limit: every client in the channel is listed
		if err := g.change(ctx, m.Channel, pub, o); err != nil {
			return err
		}
	}
	return nil
}

// disappear leaves the entries of the client's user, which expire.
func (g *Engines) disappear(ctx context.Context, client string, from []channel.PresenceMap) error {
	var errs []error
	for _, m := range from {
		if m.Kind != channel.MapUsers {
			errs = append(errs, g.change(ctx, m.Channel, &channel.Publication{Key: client, Removed: true}, m.Options))
		}
	}
	return errors.Join(errs...)
}

func (g *Engines) change(ctx context.Context, ch string, pub *channel.Publication, o channel.MapOptions) error {
	if g.Maps == nil {
		return errNoMaps
	}
	_, err := g.Maps.Change(ctx, ch, pub, o)
	return err
}
