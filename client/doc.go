// Package client is a client of Gyro, and of any server of the client protocol (docs/client-protocol.md): it keeps one
// connection, comes back when the connection is lost, subscribes to channels again, and fetches missed publications.
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
// docs/client-go.md has programs, docs/sdk-spec.md says how the client behaves when the network or the server fails. A
// Client, a Subscription, a Map, a Poll and a Channel may be used by any number of goroutines.
//
// # The connection
//
// [New] and [NewOver] make a [Client] from [Options]. [Client.Connect], [Client.Disconnect] and [Client.Close] begin
// and end the connection, [Client.Ready] waits for it. [Client.State] has its [State] and the [Reason],
// [Client.NextAttempt] the time of the next attempt to connect; [Client.Reconnect] makes the attempt at once. The
// application calls [Client.NetworkChanged] and [Client.Woke] when the system says so.
//
// # Channels
//
// [Client.NewSubscription] makes a [Subscription] with [SubscribeOptions]: [Subscription.Subscribe], [Subscription.Unsubscribe],
// [Subscription.Close] and [Subscription.Ready]. [Subscription.Publications] iterates over each [Publication]; a [GapError] stands in
// the place of missing ones. [ChannelOf] makes a [Channel], whose payloads are values of a type: [Channel.Messages] iterates over
// each [Message], with a [PayloadError] in the place of one that is no such value.
//
// [Client.NewMap] makes a [Map] with [MapOptions]: entries that are set and deleted. [Client.NewPoll] makes a [Poll] with
// [PollOptions]: keys whose values the server fetches from the application.
//
// # Calls
//
// [Client.Publish], [Client.RPC], [Client.Send], [Client.History], [Client.Presence], [Client.PresenceStats],
// [Client.SetKey] and [Client.DeleteKey] wait for the connection and for the answer. A Subscription and a Map have the
// calls for their channel.
//
// # Events
//
// [Client.Events], [Subscription.Events] and [Subscription.EventsUntilClosed] iterate over each [Event]. Of the connection:
// [ConnectingEvent], [ConnectedEvent], [DisconnectedEvent], [ErrorEvent], [MessageEvent]. Of channels: [SubscribingEvent],
// [SubscribedEvent], [UnsubscribedEvent], [PublicationEvent], [GapEvent], [StateEvent] of maps, [JoinEvent], [LeaveEvent].
//
// # Errors
//
// An [Error] has the code of the server's refusal, or is [ErrTimeout], [ErrLost], [ErrDisconnected], [ErrUnsubscribed]
// or [ErrClosed]. A [Reason] tells why a state was entered: [TransportClosed], [NoPing], [Unauthorized],
// [DisconnectCalled], and so on. Callbacks return [ErrUnauthorized] if the user has no right to connect or to
// subscribe.
//
// # Other transports and packages
//
// [WebSocket] is one [Transport]; a Transport makes a [Dialer], and the Dialer makes each [Conn]. Package httplink has
// transports for networks that let no WebSocket through, and a fallback from one to the next. The client's side of
// WebTransport is package wtlink of the module transport/webtransport. Package outbox keeps publications and calls
// while there is no connection, and package mobile is the client for phones.
package client
