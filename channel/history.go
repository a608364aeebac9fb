package channel

import "time"

// HistoryFilter selects a part of a stream (docs/recovery.md). The zero value
// selects the position alone.
type HistoryFilter struct {
	// Since excludes everything up to it (Reverse: from it); nil: all. The epoch selects nothing, but a broker with
	// copies of the stream does not answer from one at another epoch, or not as far as Since.
	Since *StreamPosition
	// AtLeast is a position that the caller knows of, for brokers with copies. It selects nothing. Zero: none.
	AtLeast StreamPosition
	// Limit: 0 for the position only, < 0 for no limit.
	Limit int
	// Reverse reads from the newest to the oldest.
	Reverse bool
	// MetaTTL renews the life of top and epoch. 0: Options.HistoryMetaTTL of the channel, else the broker's default.
	MetaTTL time.Duration
}

// History is a read part of a stream, and the position of its end.
type History struct {
	Publications []*Publication
	// Top is the position of the newest publication that the stream ever had.
	Top StreamPosition
}

// PresenceStats are the counts of a channel.
type PresenceStats struct {
	Clients int
	// Users counts distinct user IDs; all anonymous clients count as one.
	Users int
}
