package channel

import "github.com/gyrohq/gyro/protocol"

// Feed sends publications to one subscription of one client, beside those of the channel. The Subscribe handler returns
// it in gyro.SubscribeReply. The node calls Close once for each Feed, also if the subscription is not established.
type Feed interface {
	// The node calls Run on a new goroutine as soon as the subscribe reply is in the client's queue. If the
	// subscription ends before, the node does not call it. Run sends publications by publish until it has no more, or
	// until Close was called. If the subscription has not ended already, it ends when Run returns, and the client gets
	// the result as the reason: protocol.UnsubscribeServer is final; after protocol.UnsubscribeInsufficientState SDKs
	// subscribe again. If Run panics, the client is disconnected with 3004.
	//
	// publish takes Data, Info and Tags of a publication; the publication must not be modified afterwards. It returns
	// once the publication is in the client's queue. An error means that the subscription has ended, or that Data is
	// not JSON in a channel that is not Binary. The queue is bounded by gyro.Config.QueueMaxSize: a client that reads
	// more slowly is disconnected with 3008.
	Run(publish func(*Publication) error) protocol.Unsubscribe
	// Close is called after the end of the subscription, and after the handlers for all that the client sent before. It
	// makes Run return, and must not block.
	Close()
}
