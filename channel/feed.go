package channel

import "github.com/gyrohq/gyro/protocol"

// Feed sends publications to one subscription of one client, beside those of the channel. The
// Subscribe handler returns it in gyro.SubscribeReply. The node calls Close once for each Feed
// that it got, however the subscription ends, and also if it is not established.
type Feed interface {
	// Run is called on a goroutine of its own, once the subscribe reply is on its way; not at all
	// if the subscription ends before. It sends publications by publish until it has no more, or
	// until Close was called. What it returns is why the subscription ends, unless it has ended
	// already: protocol.UnsubscribeServer is final, with protocol.UnsubscribeInsufficientState
	// SDKs subscribe again. If Run panics, the client is disconnected with 3004.
	//
	// publish takes Data, Info and Tags of a publication; the publication must not be modified
	// afterwards. It returns once the publication is in the client's queue. An error means that the
	// subscription has ended, or that Data is not JSON where it has to be. The queue is bounded by gyro.Config.QueueMaxSize: a client that does
	// not take what it is sent is disconnected with 3008.
	Run(publish func(*Publication) error) protocol.Unsubscribe
	// Close is called when the subscription has ended, after the handlers for all that the client
	// sent before. It makes Run return, and must not block.
	Close()
}
