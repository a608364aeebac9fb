package channel

import "time"

// MapOptions of one change of a map channel: an entry that is set (Publication.Key names it),
// or removed (Publication.Removed).
//
// StreamSize and StreamTTL are both 0 in a map without a stream of changes, which is
// called ephemeral. Its changes have the offset 0, so Expected and Publication.Version
// have no meaning there and are errors, as is KeyTTL 0.
type MapOptions struct {
	// KeyTTL is how long an entry lives after it was set last. 0: until it is removed.
	KeyTTL time.Duration
	// StreamSize is the most changes that are remembered, StreamTTL how long after the last one.
	StreamSize int
	StreamTTL  time.Duration
	// MetaTTL is how long top offset and epoch outlive the last change and the last entry; 0:
	// for ever. It means nothing in an ephemeral map, which has neither.
	MetaTTL time.Duration

	// KeyMode is a condition for setting an entry.
	KeyMode KeyMode
	// Expected, if set, is the position of the entry's last change: another Offset, or another
	// Epoch unless that is empty, suppresses this one. An entry that does not exist is at offset 0.
	Expected *StreamPosition
	// MaxEntries suppresses a change that would add an entry to a map that has as many, or more, by changes without this
	// bound. Entries that exist can be set and removed all the same. 0: no bound. A client whose change is suppressed so gets
	// protocol.ErrorLimitExceeded.
	MaxEntries int
	// RefreshTTL has a change that KeyIfNew suppresses restart the entry's KeyTTL.
	RefreshTTL bool
	// IdempotencyKey suppresses a repeated change within IdempotencyTTL (0: 300 s), scoped per
	// channel. Only changes that were made take the key.
	IdempotencyKey string
	IdempotencyTTL time.Duration
	// VersionEpoch belongs to Publication.Version: setting an entry is suppressed unless the version is greater than
	// the entry's last version of the same epoch. Version 0 means no version: the entry keeps the version that it has.
	// Removing the entry forgets its version.
	VersionEpoch string
	// Delta sends subscribers that negotiated it only the difference to the entry's value
	// before. It means nothing in an ephemeral map.
	Delta bool
}

// Ephemeral reports whether the map has no stream of changes.
func (o *MapOptions) Ephemeral() bool { return o.StreamSize == 0 && o.StreamTTL == 0 }

// KeyMode is a condition for setting an entry of a map.
type KeyMode string

// Modes of keys.
const (
	KeyAny      KeyMode = ""
	KeyIfNew    KeyMode = "if_new"    // else suppressed: SuppressKeyExists
	KeyIfExists KeyMode = "if_exists" // else suppressed: SuppressKeyNotFound
)

// Why a change of a map was not made, besides SuppressIdempotency and SuppressVersion.
const (
	SuppressKeyExists        SuppressReason = "key_exists"
	SuppressKeyNotFound      SuppressReason = "key_not_found"
	SuppressPositionMismatch SuppressReason = "position_mismatch"
	SuppressMapFull          SuppressReason = "map_full"
)

// MapResult of a change.
type MapResult struct {
	// Position of the change, or of the channel's top if it was suppressed (of the first
	// change with the key, if the IdempotencyKey suppressed it). Zero in an ephemeral map.
	Position StreamPosition
	// Suppressed is empty if the change was made.
	Suppressed SuppressReason
	// Current is the entry that Expected did not fit; nil if there is none. It must not be changed.
	Current *Publication
}

// StateFilter selects entries of a map. The zero value selects the position and the count alone.
type StateFilter struct {
	// Key selects one entry, whatever Limit and Cursor say.
	Key string
	// Cursor is State.Cursor of the page before, or a key: the page begins after it. Empty for the first page.
	Cursor string
	// Limit is the most entries of a page: 0 for none, < 0 for all.
	Limit int
}

// State is a page of a map's entries, in the order of their keys.
type State struct {
	// Entries must not be changed. Each has the offset of its last change.
	Entries []*Publication
	// Cursor of the next page; empty after the last.
	Cursor string
	// Top of the channel at the moment of the page.
	Top StreamPosition
	// Count of all entries.
	Count int
}

// MapKind is the kind of a map, by the source of its entries.
type MapKind uint8

// Kinds of maps.
const (
	MapData    MapKind = iota + 1
	MapClients         // the clients in a channel, by client ID
	MapUsers           // the users in a channel, by user ID
)

// Defaults of a MapSubscription.
const (
	DefaultPageSize       = 100
	DefaultMaxPageSize    = 1000
	DefaultCatchUpTimeout = 5 * time.Second
)

// MapSubscription makes a subscription one to a map: the client gets the entries in pages, and then the
// changes, without a gap between both.
type MapSubscription struct {
	// Kind must equal the kind in the client's request; else the subscription fails with code 107.
	Kind MapKind
	// Ephemeral says that the map has no stream of changes, as MapOptions.Ephemeral does for its changes: both must
	// agree. A returning client gets the entries again, instead of the changes since its position.
	Ephemeral bool
	// PageSize is how many entries, or changes before the subscription is live, a page has if the client gives no size.
	// The size that a client gives is raised to MinPageSize and cut to MaxPageSize. 0: 100, 100 and 1,000. Pages of
	// large entries have fewer.
	PageSize, MinPageSize, MaxPageSize int
	// LiveLimit is the most changes that are left when the subscription goes live. 0: MaxPageSize.
	LiveLimit int
	// CatchUpTimeout is how long a client may take from its first request until it is live. A request after this time
	// ends the connection with code 3008. 0: 5 s; negative: for ever.
	CatchUpTimeout time.Duration
}

// PresenceMap is a map that shows which clients or users are in a channel. When a client subscribes to the channel, the
// node sets an entry in the map, and renews it in every presence interval: the key is the client's ID (MapClients) or
// the user's ID (MapUsers); with MapClients the entry also has the client's Info. When the subscription ends, the node
// removes the entry of the client; it leaves the entry of the user to expire, because other clients may be of the same
// user. With MapData the node sets nothing. When the subscription ends, it removes the entry whose key is the client's
// ID, which the client may have set itself.
type PresenceMap struct {
	Channel string
	Kind    MapKind
	// Options of the changes; KeyMode and RefreshTTL are filled in, and MaxEntries means nothing.
	Options MapOptions
}

// Types of subscriptions, as clients ask for them; the other types are the kinds of maps (MapKind).
const (
	TypeStream     int32 = 0
	TypeSharedPoll int32 = 4
)

// Type of subscription that the options make.
func (o *SubscribeOptions) Type() int32 {
	switch {
	case o.Poll != nil:
		return TypeSharedPoll
	case o.Map != nil:
		return int32(o.Map.Kind)
	}
	return TypeStream
}
