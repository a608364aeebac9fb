package stand

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/protocol"

	"github.com/gyrohq/gyro/e2e/internal/wire"
)

// newSDK subscribes to a channel by centrifuge-go, and keeps a book as a Subscriber does.
func newSDK(url, channel string, b *book, check func(payload) error, fail func(string)) (*centrifuge.Client, error) {
	client := centrifuge.NewJsonClient(url, centrifuge.Config{
		MinReconnectDelay: 20 * time.Millisecond, MaxReconnectDelay: 500 * time.Millisecond,
		HandshakeTimeout: wire.Timeout, ReadTimeout: answerTimeout, WriteTimeout: wire.Timeout,
	})
	sub, err := client.NewSubscription(channel, centrifuge.SubscriptionConfig{
		Recoverable: true, MinResubscribeDelay: 20 * time.Millisecond, MaxResubscribeDelay: 500 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	sub.OnSubscribed(func(e centrifuge.SubscribedEvent) {
		if e.WasRecovering && !e.Recovered {
			b.told()
		}
	})
	sub.OnPublication(func(e centrifuge.PublicationEvent) {
		var content payload
		if err := json.Unmarshal(e.Data, &content); err != nil {
			fail(err.Error())
			return
		}
		if err := check(content); err != nil {
			fail(err.Error())
		}
		b.receive(content.N)
	})
	sub.OnSubscribing(func(e centrifuge.SubscribingEvent) {
		if e.Code == codeInsufficientUnsubscribe {
			b.note(func(c *Counts) { c.Insufficient++ })
		}
	})
	sub.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) {
		if e.Code != 0 { // 0: the test has unsubscribed
			b.note(func(c *Counts) { c.Refused++ })
			fail("SDK unsubscribed: " + e.Reason)
		}
	})
	client.OnConnecting(func(e centrifuge.ConnectingEvent) {
		if e.Code != 0 { // 0: the first time
			b.note(func(c *Counts) { c.Reconnects++ })
		}
	})
	client.OnDisconnected(func(e centrifuge.DisconnectedEvent) {
		switch e.Code {
		case 0: // the test has disconnected
		case protocol.DisconnectBadRequest.Code:
			// A timer of centrifuge-go that subscribes again may fire while it connects,
			// and sends the subscribe command ahead of the connect command.
			go func() { _ = client.Connect() }()
		default:
			fail(fmt.Sprintf("SDK disconnected: %d %s", e.Code, e.Reason))
		}
	})
	if err := client.Connect(); err != nil {
		return nil, err
	}
	return client, sub.Subscribe()
}
