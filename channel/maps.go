package channel

import "time"

// MapOptions of one change of a map: an entry is set (Publication.Key names it), or removed (Publication.Removed).
//
// An ephemeral map has no stream of changes: StreamSize and StreamTTL are both 0. Its changes have the offset 0;
// Expected, Publication.Version and a KeyTTL of 0 are errors.
type MapOptions struct {
	// KeyTTL is how long an entry lives after it was set. 0: until it is removed.
	KeyTTL time.Duration
	// StreamSize is the most changes that are remembered, StreamTTL how long after the last one.
	StreamSize int
	StreamTTL  time.Duration
	// MetaTTL is how long top offset and epoch outlive the last change and entry; 0: for ever. Unused in an ephemeral
	// map.
	MetaTTL time.Duration

	// KeyMode is a condition for setting an entry.
	KeyMode KeyMode
	// Expected is the position of the entry's last change, at offset 0 if there is no entry: another Offset, or another
	// Epoch unless that is empty, suppresses this change.
	Expected *StreamPosition
	// MaxEntries suppresses a new entry in a map that has as many, or more by changes without this bound; 0: no bound.
	// Entries that exist can be changed. A client gets protocol.ErrorLimitExceeded then.
	MaxEntries int
	// RefreshTTL restarts the entry's KeyTTL also if KeyIfNew suppresses the change.
	RefreshTTL bool
	// IdempotencyKey suppresses a repeated change of the channel within IdempotencyTTL (0: 300 s). Only changes that
	// were made take the key.
	IdempotencyKey string
	IdempotencyTTL time.Duration
	// VersionEpoch belongs to Publication.Version: the entry is not set unless the version is greater than its last one
	// of the same epoch. Version 0: the entry keeps its version. Removing the entry forgets it.
	VersionEpoch string
	// Delta sends subscribers that negotiated it the difference to the value before. Unused in an ephemeral map.
	Delta bool
}

func (o *MapOptions) Ephemeral() bool { return o.StreamSize == 0 && o.StreamTTL == 0 }

// KeyMode is a condition for setting an entry of a map.
type KeyMode string

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
	// Position of the change, or of the top if it was suppressed (of the first change with the IdempotencyKey, if that
	// suppressed it). Zero in an ephemeral map.
	Position StreamPosition
	// Suppressed is empty if the change was made.
	Suppressed SuppressReason
	// Current is the entry that Expected did not fit, or nil. It must not be changed.
	Current *Publication
}

// StateFilter selects entries of a map. The zero value selects the position and the count alone.
type StateFilter struct {
	// Key selects one entry, whatever Limit and Cursor say.
	Key string
	// Cursor of the page before, or a key, behind which the page begins. Empty for the first page.
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

// MapSubscription makes a subscription to a map: the client gets the entries in pages, then the changes, without a gap.
type MapSubscription struct {
	// Kind must equal the kind in the client's request; else it gets error 107.
	Kind MapKind
	// Ephemeral must agree with MapOptions.Ephemeral of the changes. A returning client gets the entries again.
	Ephemeral bool
	// PageSize is how many entries, or changes before the subscription is live, a page has by default. The client's size
	// is raised to MinPageSize and cut to MaxPageSize. 0: 100, 100 and 1,000. Pages of large entries have fewer.
	PageSize, MinPageSize, MaxPageSize int
	// LiveLimit is the most changes that are left when the subscription goes live. 0: MaxPageSize.
	LiveLimit int
	// CatchUpTimeout is how long a client may take from its first request until it is live; a later request ends the
	// connection with 3008. 0: 5 s; negative: for ever.
	CatchUpTimeout time.Duration
}

// PresenceMap is a map that shows which clients or users are in a channel. While a client is subscribed, the node sets
// an entry and renews it in every presence interval: by the client's ID, with its Info (MapClients), or by the user's ID
// (MapUsers). At the end it removes the entry of the client; the entry of the user expires, as other clients may be of
// the same user. With MapData the node only removes, at the end, the entry with the client's ID, which the client may
// have set itself.
type PresenceMap struct {
	Channel string
	Kind    MapKind
	// Options of the changes. The node sets KeyMode and RefreshTTL; MaxEntries is unused.
	Options MapOptions
}

// Types of subscriptions, as clients ask for them, besides the kinds of maps.
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
