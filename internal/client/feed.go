package client

import (
	"errors"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/guard"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
)

var errFeedOver = errors.New("gyro: the subscription has ended")

func (e *env) Feed(b *session.Subscription, f channel.Feed) {
	c := e.client()
	go func() {
		var why protocol.Unsubscribe
		run := func() { why = f.Run(func(p *channel.Publication) error { return c.fed(b, p) }) }
		if !guard.Do(run, c.panicked) {
			c.Post(c.crash)
			return
		}
		c.Post(func() { c.feedEnded(b, why) })
	}()
}

// feedEnded: the feed's result does not matter if the subscription had ended before.
func (c *Client) feedEnded(b *session.Subscription, why protocol.Unsubscribe) {
	wrong := why.Check()
	if wrong != nil {
		why = protocol.UnsubscribeServer
	}
	if ch, ended := b.FeedEnded(why); ended && wrong != nil {
		c.loop.clients.Log.Error("a feed ended with a code that no client can get", "client", c.ID(), "user", c.UserID(), "channel", ch, "error", wrong)
	}
}

// fed waits until the publication is queued for the client.
func (c *Client) fed(b *session.Subscription, p *channel.Publication) error {
	taken := make(chan bool, 1)
	posted := c.loop.Post(&sessionCall{Session: &c.session, F: func() { taken <- b.Fed(p) }})
	if !posted {
		return errFeedOver
	}
	select {
	case ok := <-taken:
		if ok {
			return nil
		}
	case <-c.lifetime.Done():
	}
	return errFeedOver
}
