package channels

import (
	"cmp"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Defaults of maps with a stream of changes.
const (
	defaultStreamSize = 100
	defaultStreamTTL  = time.Minute
	// metaFactor: the position of a recoverable map lives as many times the TTL of its stream.
	metaFactor = 10
	maxEntries = 10_000
)

const ephemeral = "ephemeral"

// mapSubscription returns nil for channels that are not maps.
func mapSubscription(ch Channel) *channel.MapSubscription {
	if ch.Type < Map || ch.Type > MapUsers {
		return nil
	}
	m := &ch.Map
	return &channel.MapSubscription{
		Kind: channel.MapKind(ch.Type), Ephemeral: m.Mode == ephemeral,
		PageSize: m.DefaultPageSize, MinPageSize: m.MinPageSize, MaxPageSize: m.MaxPageSize,
		LiveLimit: m.LiveTransitionLimit, CatchUpTimeout: m.CatchUpTimeout,
	}
}

// presenceMaps returns the maps that show the clients and users of a channel, and with RemoveOnUnsubscribe the map
// itself, which loses the entry of a client that leaves.
func presenceMaps(ch Channel) []channel.PresenceMap {
	var list []channel.PresenceMap
	add := func(name string, of *Options, kind channel.MapKind) {
		if o, err := MapChange(of); err == nil {
			list = append(list, channel.PresenceMap{Channel: name, Kind: kind, Options: o})
		}
	}
	if of := ch.ClientsMap; of != nil {
		add(ch.MapClientsPresence+ch.Name, of, channel.MapClients)
	}
	if of := ch.UsersMap; of != nil {
		add(ch.MapUsersPresence+ch.Name, of, channel.MapUsers)
	}
	if ch.Map.RemoveOnUnsubscribe {
		add(ch.Name, ch.Options, channel.MapData)
	}
	return list
}

// MapChange returns the options of a change of a map. The error is for a channel that is no map.
func MapChange(of *Options) (o channel.MapOptions, err error) {
	m := &of.Map
	switch {
	case m.Mode == "":
		return o, protocol.ErrorBadRequest
	case m.Mode == ephemeral:
		return channel.MapOptions{KeyTTL: m.KeyTTL}, nil
	}
	o = channel.MapOptions{
		KeyTTL: m.KeyTTL, StreamSize: cmp.Or(m.StreamSize, defaultStreamSize), StreamTTL: cmp.Or(m.StreamTTL, defaultStreamTTL),
		MetaTTL: m.MetaTTL, Delta: of.DeltaPublish,
	}
	if m.KeyTTL > 0 && o.MetaTTL == 0 {
		o.MetaTTL = max(metaFactor*o.StreamTTL, m.KeyTTL)
	}
	return o, nil
}

// ClientMapChange is MapChange for a change of a client, with the bound of map.client_max_entries. If the keys are the
// IDs of users, the default is no bound: a user sets one key. With the IDs of clients it can set any number, one for
// each connection.
func ClientMapChange(of *Options) (channel.MapOptions, error) {
	o, err := MapChange(of)
	switch n := of.Map.ClientMaxEntries; {
	case n != 0:
		o.MaxEntries = max(n, 0)
	case of.Map.ClientKey != "user_id":
		o.MaxEntries = maxEntries
	}
	return o, err
}
