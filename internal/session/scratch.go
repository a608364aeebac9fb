package session

import (
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/internal/sharedpoll"
	"github.com/gyrohq/gyro/protocol"
)

// Scratch is memory for a reply until it is encoded, shared by the sessions of a loop: new memory for each would be a
// fifth of the garbage of a client that connects and recovers.
type Scratch struct {
	reply      protocol.Reply
	connect    protocol.ConnectResult
	subscribed subscribeResult
	tracked    sharedpoll.Result
	pages      recovery.PageCache
	// setup of a former subscription, for the next one.
	setup *setup
	// Polls has the keys that the clients of the loop track. The owner of the sessions sets it.
	Polls sharedpoll.Loop
}

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
