package session

import (
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/internal/sharedpoll"
	"github.com/gyrohq/gyro/protocol"
)

// Scratch is memory for a reply and its parts, until the reply is encoded. All sessions of a loop share one: new memory
// for each reply would be a fifth of the garbage of a client that connects and recovers.
type Scratch struct {
	reply      protocol.Reply
	connect    protocol.ConnectResult
	subscribed subscribeResult
	tracked    sharedpoll.Result
	pages      recovery.PageCache
	// setup is the memory of the last subscription until it was made. The next one can have it.
	setup *setup
	// Place of the keys that the loop's clients track. The owner of the sessions sets it.
	Place sharedpoll.Place
}

// subscribeResult is the result of a subscription, and the memory of its lists.
type subscribeResult struct {
	Result  protocol.SubscribeResult
	Missed  hub.Results
	Entries hub.Results
}

// Reset drops the result.
func (r *subscribeResult) Reset() {
	r.Result = protocol.SubscribeResult{}
	r.Missed.Reset()
	r.Entries.Reset()
}
