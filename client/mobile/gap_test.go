package mobile

import (
	"fmt"
	"testing"

	"github.com/gyrohq/gyro/client"
)

type subscriptions struct {
	Listener
	told []string
}

func (s *subscriptions) OnServerSubscribed(channel string, recovered bool) {
	s.told = append(s.told, fmt.Sprint(channel, " ", recovered))
}

// TestUnread: a listener that was too slow for publications of a channel is told so, and once of a gap that the server leaves.
func TestUnread(t *testing.T) {
	var l subscriptions
	for _, e := range []client.Event{
		client.SubscribedEvent{Channel: "news", WasRecovering: true},
		client.GapEvent{Channel: "news"},
		client.SubscribedEvent{Channel: "news"},
		client.GapEvent{Channel: "news", Unread: true},
	} {
		tell(&l, e)
	}
	if got := fmt.Sprint(l.told); got != "[news false news true news false]" {
		t.Error(got)
	}
}
