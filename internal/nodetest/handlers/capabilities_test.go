package handlers

import (
	"context"
	"fmt"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

func capabilities(t *testing.T, list ...channel.Capability) *channel.Capabilities {
	c, err := channel.NewCapabilities(list)
	nodetest.Must(t, err)
	return c
}

// Handlers get the rights of the client's capabilities and of its subscription. A refresh ends the subscriptions that
// need a right which is gone.
func TestCapabilities(t *testing.T) {
	all := channel.RightSubscribe | channel.RightPublish | channel.RightPresence | channel.RightHistory
	before := capabilities(t,
		channel.Capability{Channels: []string{"a", "b"}, Allow: channel.RightSubscribe | channel.RightHistory},
		channel.Capability{Channels: []string{"c*"}, Match: channel.MatchWildcard, Allow: channel.RightSubscribe | channel.RightPublish},
	)
	refreshes := map[string]gyro.RefreshReply{
		"same": {}, "fewer": {Capabilities: capabilities(t, channel.Capability{Channels: []string{"b", "c1"}, Allow: channel.RightSubscribe})},
	}
	var seen []string
	see := func(what string, r channel.Rights) error {
		seen = append(seen, fmt.Sprintf("%s %04b", what, r))
		return protocol.ErrorPermissionDenied
	}
	node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{Capabilities: before}, ClientSideRefresh: true}, nil
		},
		Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			reply := gyro.SubscribeReply{ClientSideRefresh: true}
			if reply.Options.Needs = e.Rights & (channel.RightSubscribe | channel.RightHistory); e.Channel == "free" {
				reply.Options.Rights = channel.RightPresence
			}
			return reply, nil
		},
		Publish: func(_ context.Context, _ *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
			return gyro.PublishReply{}, see("publish "+e.Channel, e.Rights)
		},
		MapChange: func(_ context.Context, _ *gyro.Client, e gyro.MapChangeEvent) (gyro.MapChangeReply, error) {
			return gyro.MapChangeReply{}, see("change "+e.Channel, e.Rights)
		},
		Presence: func(_ context.Context, _ *gyro.Client, e gyro.PresenceEvent) (gyro.PresenceReply, error) {
			return gyro.PresenceReply{}, see("presence "+e.Channel, e.Rights)
		},
		PresenceStats: func(_ context.Context, _ *gyro.Client, e gyro.PresenceEvent) (gyro.PresenceStatsReply, error) {
			return gyro.PresenceStatsReply{}, see("counts "+e.Channel, e.Rights)
		},
		History: func(_ context.Context, _ *gyro.Client, e gyro.HistoryEvent) (gyro.HistoryReply, error) {
			return gyro.HistoryReply{}, see("history "+e.Channel, e.Rights)
		},
		Refresh: func(_ context.Context, _ *gyro.Client, e gyro.RefreshEvent) (gyro.RefreshReply, error) {
			return refreshes[e.Token], nil
		},
		SubRefresh: func(context.Context, *gyro.Client, gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
			return gyro.SubRefreshReply{Rights: &all}, nil
		},
	}})
	c := wstest.Pipe(t, node)
	c.Connect("")
	for _, ch := range []string{"a", "b", "c1", "c2", "free"} {
		c.Subscribe(ch, "")
	}
	want := func(lines ...string) {
		t.Helper()
		if fmt.Sprint(seen) != fmt.Sprint(lines) {
			t.Errorf("%q, want %q", seen, lines)
		}
		seen = nil
	}
	ask := func(ch string) {
		for _, command := range []string{
			`"publish":{"channel":"` + ch + `","data":{}}`, `"publish":{"channel":"` + ch + `","type":1,"key":"k","data":{}}`,
			`"presence":{"channel":"` + ch + `"}`, `"presence_stats":{"channel":"` + ch + `"}`, `"history":{"channel":"` + ch + `"}`,
		} {
			c.Outcome(command)
		}
	}
	ask("a")
	want("publish a 1001", "change a 1001", "presence a 1001", "counts a 1001", "history a 1001")
	ask("c2")
	want("publish c2 0011", "change c2 0011", "presence c2 0011", "counts c2 0011", "history c2 0011")
	ask("free")
	want("publish free 0100", "change free 0100", "presence free 0100", "counts free 0100", "history free 0100")
	c.Do(`"sub_refresh":{"channel":"free","token":"t"}`)
	ask("free")
	want("publish free 1111", "change free 1111", "presence free 1111", "counts free 1111", "history free 1111")
	c.Do(`"unsubscribe":{"channel":"free"}`)
	ask("free")
	want("publish free 0000", "change free 0000", "presence free 0000", "counts free 0000", "history free 0000")
	c.Do(`"refresh":{"token":"same"}`)
	c.Do(`"refresh":{"token":"fewer"}`)
	ends := map[string]uint32{}
	for range 3 {
		push := c.Push()
		ends[push.Channel] = push.Unsubscribe.Code
	}
	if fmt.Sprint(ends) != "map[a:2000 b:2502 c2:2000]" {
		t.Errorf("the refresh ended %v", ends)
	}
	ask("c1")
	want("publish c1 0001", "change c1 0001", "presence c1 0001", "counts c1 0001", "history c1 0001")
}
