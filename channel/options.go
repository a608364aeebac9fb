package channel

import "time"

// Options of a channel. A node takes them from gyro.Config.Channel, for publishing and for
// subscribing.
type Options struct {
	// HistorySize and HistoryTTL make the channel keep publications whose own options name no history: at most
	// HistorySize of them, for HistoryTTL after the last one. Both are greater than 0, or both are 0; then the channel
	// keeps no history, and a subscription with Recoverable or Positioned is refused.
	HistorySize int
	HistoryTTL  time.Duration
	// HistoryMetaTTL is how long the position of the stream outlives its last use, unless
	// the options of a publication or a subscription say otherwise. At least HistoryTTL; 0
	// means the broker's default (30 days).
	HistoryMetaTTL time.Duration
	// Binary allows payloads that are not JSON. Clients with JSON connections, which cannot
	// get them, are disconnected with 3506, and the node logs a warning, once per channel
	// and minute. Default: false, so that such a payload is an error of the call, or of the
	// handler, that gives it to the node.
	Binary bool
}
