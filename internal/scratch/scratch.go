// Package scratch has room for the answers to clients, and for what else the sessions of a loop share.
package scratch

import (
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/internal/sharedpoll"
	"github.com/gyrohq/gyro/protocol"
)

// Scratch is room for a reply, and for what goes into it, until it is encoded. All sessions of a
// loop share one: new memory for each reply would be a fifth of the garbage that a client makes
// that connects and recovers.
type Scratch struct {
	Reply      protocol.Reply
	Connect    protocol.ConnectResult
	Subscribed Subscribed
	Tracked    sharedpoll.Result
	Pages      recovery.PageCache
	// Setup is for package session: memory that a subscription needs until it is made, and the next one can have.
	Setup any
	// Place of the keys that the loop's clients track. The owner of the sessions sets it.
	Place sharedpoll.Place
}

// Subscribed is the result of a subscription.
type Subscribed struct {
	Result  protocol.SubscribeResult
	Missed  hub.Results
	Entries hub.Results
}

// Reset drops the result.
func (r *Subscribed) Reset() {
	r.Result = protocol.SubscribeResult{}
	r.Missed.Reset()
	r.Entries.Reset()
}
