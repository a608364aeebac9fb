package gyro_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/bookmark"
)

// granted subscribes every client to channels, which are recoverable.
func granted(channels ...string) gyro.Handlers {
	return gyro.Handlers{Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
		subs := make(map[string]gyro.SubscribeOptions)
		for _, ch := range channels {
			subs[ch] = gyro.SubscribeOptions{Recoverable: true}
		}
		return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "u"}, Subscriptions: subs}, nil
	}}
}

// withBookmarks opens a one-way connection that has bookmarks, at the positions of the last one.
func withBookmarks(t *testing.T, n *gyro.Node, limit int, last string) *lines {
	t.Helper()
	info := oneWay
	info.Bookmarks, info.Connect = limit, &protocol.ConnectRequest{Subs: make(map[string]*protocol.SubscribeRequest)}
	for ch, at := range bookmark.Parse(last) {
		info.Connect.Subs[ch] = &protocol.SubscribeRequest{Recover: true, Offset: at.Offset, Epoch: at.Epoch}
	}
	l, err := openLines(t.Context(), n, info)
	must(t, err)
	return l
}

// messages returns the messages since the last call, each with the bookmark behind it.
func (l *lines) messages() (list [][2]string) {
	for line := range strings.Lines(l.read()) {
		line = strings.TrimSuffix(line, "\n")
		if id, ok := strings.CutPrefix(line, bookmark.Prefix); ok {
			list[len(list)-1][1] = "id " + id
		} else if line != "" {
			list = append(list, [2]string{line, ""})
		}
	}
	return list
}

// TestBookmarks: what moves a position has a bookmark, and nothing else has.
func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := run(t, gyro.Config{Handlers: granted("a")})
		l := withBookmarks(t, node, 4096, "")
		want := func(what string, marks ...string) {
			t.Helper()
			messages := l.messages()
			var got []string
			for _, m := range messages {
				var entries []string
				for ch, at := range bookmark.Parse(strings.TrimPrefix(m[1], "id ")) {
					entries = append(entries, fmt.Sprint(ch, at.Offset))
				}
				slices.Sort(entries)
				got = append(got, strings.Join(entries, " "))
			}
			if !slices.Equal(got, marks) {
				t.Errorf("%s: bookmarks %q, want %q, of %q", what, got, marks, messages)
			}
		}
		want("connect", "a0")
		publish(t, node, "a", `1`, keep(10, time.Hour))
		want("a publication", "a1")
		for i := range 3 {
			publish(t, node, "a", fmt.Sprint(i), keep(10, time.Hour))
		}
		want("publications at once", "a2", "a3", "a4")
		publish(t, node, "a", `5`, nil)
		want("a publication without history", "")

		all := gyro.Target{User: "u"}
		must(t, node.Subscribe(t.Context(), all, "plain", nil))
		want("a plain subscription", "a4")
		must(t, node.Subscribe(t.Context(), all, "b", &gyro.SubscribeOptions{Recoverable: true, PushJoinLeave: true}))
		want("a second channel", "a4 b0")
		publish(t, node, "plain", `1`)
		want("a plain publication", "")
		for i := range 3 {
			publish(t, node, "a", fmt.Sprint(i), keep(10, time.Hour))
			publish(t, node, "b", fmt.Sprint(i), keep(10, time.Hour))
		}
		if m := l.messages(); len(m) != 6 || len(bookmark.Parse(strings.TrimPrefix(m[5][1], "id "))) != 2 {
			t.Errorf("two channels: %q", m)
		}
		must(t, node.Refresh(t.Context(), all, &gyro.RefreshOptions{ExpireAt: time.Now().Add(time.Minute)}))
		want("a refresh", "")
		must(t, node.Unsubscribe(t.Context(), all, "a", nil))
		want("an unsubscribe", "b3")
		must(t, node.Unsubscribe(t.Context(), all, "b", nil))
		if m := l.messages(); len(m) != 1 || m[0][1] != "id " {
			t.Errorf("the last unsubscribe: %q", m)
		}
		l.hangUp()
	})
}

// TestBookmarkLimit: without room for all positions there is no bookmark, and the rest is as usual.
func TestBookmarkLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		node := run(t, gyro.Config{Handlers: granted("a", "b"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l := withBookmarks(t, node, 100, "")
		if m := l.messages(); len(m) != 1 || m[0][1] == "" {
			t.Fatalf("connect: %q", m)
		}
		must(t, node.Subscribe(t.Context(), gyro.Target{User: "u"}, strings.Repeat("x", 100), &gyro.SubscribeOptions{Recoverable: true}))
		publish(t, node, "a", `1`, keep(10, time.Hour))
		if m := l.messages(); len(m) != 2 || len(bookmark.Parse(strings.TrimPrefix(m[1][1], "id "))) != 2 {
			t.Errorf("a long name: %q", m)
		}
		for i := range 8 {
			must(t, node.Subscribe(t.Context(), gyro.Target{User: "u"}, fmt.Sprint("more", i), &gyro.SubscribeOptions{Recoverable: true}))
		}
		l.messages()
		publish(t, node, "a", `2`, keep(10, time.Hour))
		publish(t, node, "a", `3`, keep(10, time.Hour))
		if m := l.messages(); len(m) != 2 || m[0][1]+m[1][1] != "" {
			t.Errorf("too many channels: %q", m)
		}
		l.hangUp()
		must(t, node.Shutdown(t.Context()))
		if !strings.Contains(log.String(), "do not fit into a bookmark") || !strings.Contains(log.String(), "channel=x") {
			t.Errorf("log: %s", log.String())
		}
	})
}

// TestReturnByBookmark: a client that is cut off anywhere and comes back with its last bookmark gets
// everything once and in order, however many channels it has.
func TestReturnByBookmark(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			channels := []string{"a", "b&c", "d"}[:1+seed%3]
			node := run(t, gyro.Config{Handlers: granted(channels...)})
			sent, seen := make(map[string]int), make(map[string][]string)
			l := withBookmarks(t, node, 4096, "")
			last := strings.TrimPrefix(l.messages()[0][1], "id ")
			cut := func(after int) {
				for _, m := range l.messages() {
					if after--; after < 0 {
						break
					}
					if m[1] == "" {
						t.Fatalf("no bookmark: %q", m)
					}
					last = strings.TrimPrefix(m[1], "id ")
					note(t, m[0], seen)
				}
				l.hangUp()
			}
			publishSome := func() {
				for range r.IntN(30) {
					ch := channels[r.IntN(len(channels))]
					sent[ch]++
					publish(t, node, ch, fmt.Sprint(sent[ch]), keep(1000, time.Hour))
					if r.IntN(4) == 0 {
						synctest.Wait()
					}
				}
			}
			for range 20 {
				publishSome()
				cut(r.IntN(40))
				publishSome()
				l = withBookmarks(t, node, 4096, last)
			}
			cut(1 << 20)
			for _, ch := range channels {
				for i, data := range seen[ch] {
					if data != fmt.Sprint(i+1) {
						t.Fatalf("%s: %s at %d of %v", ch, data, i, seen[ch])
					}
				}
				if len(seen[ch]) != sent[ch] {
					t.Fatalf("%s: %d of %d", ch, len(seen[ch]), sent[ch])
				}
			}
		})
	}
}

// note adds the publications of a push to what a client has seen.
func note(t *testing.T, push string, seen map[string][]string) {
	t.Helper()
	var p protocol.Push
	if err := p.UnmarshalJSON([]byte(push)); err != nil {
		t.Fatal(err)
	}
	if p.Pub != nil {
		seen[p.Channel] = append(seen[p.Channel], string(p.Pub.Data))
	}
	if p.Connect != nil {
		for ch, sub := range p.Connect.Subs {
			for _, pub := range sub.Publications {
				seen[ch] = append(seen[ch], string(pub.Data))
			}
		}
	}
}

// TestBrief: a client of brief connections is in no presence, and nobody hears it come and go.
func TestBrief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := gyro.SubscribeOptions{Presence: true, EmitJoinLeave: true, PushJoinLeave: true, Recoverable: true}
		node := run(t, gyro.Config{Handlers: news(full)})
		watcher, err := openOneWay(t.Context(), node, `{"token":"watcher"}`)
		must(t, err)
		watcher.read()
		info := oneWay
		info.Brief, info.Connect = true, &protocol.ConnectRequest{Token: "brief"}
		l, err := openLines(t.Context(), node, info)
		must(t, err)
		first, rest, _ := strings.Cut(l.read(), "\n")
		if c := connectPush(t, first); c.Subs["news"] == nil || rest != "" {
			t.Errorf("got %q, %q", first, rest)
		}
		must(t, node.Subscribe(t.Context(), gyro.Target{User: "brief"}, "more", &full))
		stats, err := node.PresenceStats(t.Context(), "news")
		if err != nil || stats.Clients != 1 {
			t.Errorf("presence of news: %+v, %v", stats, err)
		}
		if stats, err = node.PresenceStats(t.Context(), "more"); err != nil || stats.Clients != 0 {
			t.Errorf("presence of more: %+v, %v", stats, err)
		}
		l.hangUp()
		wantLines(t, watcher)
		watcher.hangUp()
		synctest.Wait()
	})
}
