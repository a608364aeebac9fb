// Package client is a client of Gyro, and of any server of the client protocol (docs/client-protocol.md): it keeps one
// WebSocket connection, comes back when that is lost, subscribes to channels again, and fetches what it has missed.
//
//	c, err := client.New("wss://example.com/connection/websocket", client.Options{Token: token})
//	...
//	defer c.Close()
//	if err := c.Connect(ctx); err != nil { // the server refuses, or ctx ends
//		return err
//	}
//	sub, err := c.NewSubscription("news", nil)
//	...
//	pubs := sub.Publications(ctx)
//	sub.Subscribe()
//	for pub, err := range pubs {
//		...
//	}
//
// Package httplink has transports for networks that let no WebSocket through, package outbox keeps what is sent while there
// is no connection, and package mobile is the client for phones. WebTransport is in the module transport/webtransport, whose package wtlink it is.
//
// How it behaves when the network or the server does not is told in docs/sdk-spec.md.
//
// A Client, a Subscription and a Channel may be used by any number of goroutines.
package client
