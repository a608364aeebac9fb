package channel

import "time"

// HistoryFilter selects a part of a stream (docs/recovery.md). The zero value
// selects the position alone.
type HistoryFilter struct {
	// Since excludes everything up to it (Reverse: everything from it). Nil: all.
	// The epoch does not select anything. A broker that has copies of the stream does not
	// answer from one that is at another epoch, or not as far as Since.
	Since *StreamPosition
	// AtLeast is a position that the caller knows of. It selects nothing; it is for brokers with copies, as Since is.
	// Zero: none.
	AtLeast StreamPosition
	// Limit: 0 for the position only, < 0 for no limit.
	Limit int
	// Reverse reads from the newest to the oldest.
	Reverse bool
	// MetaTTL renews the life of top and epoch. 0 means Options.HistoryMetaTTL of the channel, and if it is 0, too, the
	// broker's default.
	MetaTTL time.Duration
}

// History is a read part of a stream, and the position of its end.
type History struct {
	Publications []*Publication
	// Top is the position of the newest publication ever added to this stream.
	Top StreamPosition
}

// PresenceStats are the counts of a channel.
type PresenceStats struct {
	Clients int
	// Users counts distinct user IDs; all anonymous clients count as one.
	Users int
}
