package broker

import (
	"context"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Maps keeps the entries of map channels, as a part of a Broker: Subscribe starts the delivery of changes, which come by
// EventHandler.HandlePublication in the order of their offsets; History reads the stream of changes, Positions its top.
// If a channel is used as a map and a stream, the broker does as it likes. Any goroutine may call the methods while the
// broker runs.
//
// An entry whose TTL is over is removed by the broker within some seconds, by a change like any other. Until then it
// exists.
type Maps interface {
	// Change sets the entry pub.Key, or removes it if pub.Removed. The first check that fails suppresses the change:
	// IdempotencyKey; then, if the entry is set, Version, KeyMode, Expected and, if there is no such entry, MaxEntries;
	// if it is removed, Expected and whether it exists (SuppressKeyNotFound). An entry whose TTL is over counts until it
	// is removed. Checks, offset, entry, stream and delivery are one atomic step per channel.
	//
	// The broker owns pub, and sets its Offset and Time (if 0). A removal without Tags gets the Tags of the entry. With
	// MapOptions.Delta, the event's Prev is the entry before the change, with its Tags. A change without Key, and
	// options that an ephemeral map cannot have, are protocol.ErrorBadRequest.
	Change(ctx context.Context, ch string, pub *channel.Publication, opts channel.MapOptions) (channel.MapResult, error)
	// State reads entries. A caller that reads all pages gets each entry once that does not change meanwhile; the
	// changes since the first page's Top are in the stream. As with History, a channel that does not exist has an epoch;
	// unlike there, reading prolongs nothing. The Top of an ephemeral map means nothing.
	State(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error)
	// Clear forgets the entries, the stream and the epoch, without removals. Nodes with subscribers of the channel get a
	// call of EventHandler.HandleLoss.
	Clear(ctx context.Context, ch string) error
}

// CheckChange is for engines: it returns protocol.ErrorBadRequest for what Maps.Change must refuse.
func CheckChange(pub *channel.Publication, opts *channel.MapOptions) error {
	if pub.Key == "" || opts.Ephemeral() && (opts.KeyTTL <= 0 || opts.Expected != nil || pub.Version > 0) {
		return protocol.ErrorBadRequest
	}
	return nil
}
