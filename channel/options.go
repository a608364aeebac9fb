package channel

import "time"

// Options of a channel, from gyro.Config.Channel, for publishing and subscribing.
type Options struct {
	// HistorySize is the most publications that the channel keeps, for HistoryTTL after the last one, if their own
	// options name no history. Both are greater than 0, or both are 0: no history, and subscriptions with Recoverable or
	// Positioned are refused.
	HistorySize int
	HistoryTTL  time.Duration
	// HistoryMetaTTL is how long the position of the stream outlives its last use, unless a publication or a
	// subscription says otherwise. At least HistoryTTL; 0: the broker's default (30 days).
	HistoryMetaTTL time.Duration
	// Binary allows payloads that are not JSON. Clients with JSON connections cannot get them: they are disconnected
	// with 3506, with a warning in the log once per channel and minute. Default: false, and such a payload is an error
	// of the call or handler that gives it.
	Binary bool
}
