package session

import (
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/pages"
	"github.com/gyrohq/gyro/protocol"
)

// Scratch is room for a reply, and for what goes into it, until it is encoded. All sessions of a
// loop share one: new memory for each reply would be a fifth of the garbage that a client makes
// that connects and recovers.
type Scratch struct {
	reply      protocol.Reply
	connect    protocol.ConnectResult
	subscribed subscribed
	pages      pages.Cache
}

// subscribed is the result of a subscription.
type subscribed struct {
	result  protocol.SubscribeResult
	missed  hub.Results
	entries hub.Results
}

// reset drops the result.
func (r *subscribed) reset() {
	r.result = protocol.SubscribeResult{}
	r.missed.Reset()
	r.entries.Reset()
}
