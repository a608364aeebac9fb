package connections

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/bookmark"
)

// withBookmarks opens a one-way connection that has bookmarks, at the positions of the last one.
func withBookmarks(t *testing.T, n *gyro.Node, limit int, last string) *nodetest.Lines {
	t.Helper()
	info := nodetest.OneWay
	info.Bookmarks, info.Connect = limit, &protocol.ConnectRequest{Subs: make(map[string]*protocol.SubscribeRequest)}
	for ch, at := range bookmark.Parse(last) {
		info.Connect.Subs[ch] = &protocol.SubscribeRequest{Recover: true, Offset: at.Offset, Epoch: at.Epoch}
	}
	l, err := nodetest.OpenLines(t.Context(), n, info)
	nodetest.Must(t, err)
	return l
}

// messages returns the messages since the last call, each with the bookmark behind it.
func messages(l *nodetest.Lines) (list [][2]string) {
	for line := range strings.Lines(l.Read()) {
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
		node := nodetest.Run(t, gyro.Config{Handlers: nodetest.Granted("a")})
		l := withBookmarks(t, node, 4096, "")
		want := func(what string, marks ...string) {
			t.Helper()
			messages := messages(l)
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
		nodetest.Publish(t, node, "a", `1`, nodetest.Keep(10, time.Hour))
		want("a publication", "a1")
		for i := range 3 {
			nodetest.Publish(t, node, "a", fmt.Sprint(i), nodetest.Keep(10, time.Hour))
		}
		want("publications at once", "a2", "a3", "a4")
		nodetest.Publish(t, node, "a", `5`, nil)
		want("a publication without history", "")

		all := gyro.Target{User: "u"}
		nodetest.Must(t, node.Users().Subscribe(t.Context(), all, "plain", nil))
		want("a plain subscription", "a4")
		nodetest.Must(t, node.Users().Subscribe(t.Context(), all, "b", &gyro.SubscribeOptions{Recoverable: true, PushJoinLeave: true}))
		want("a second channel", "a4 b0")
		nodetest.Publish(t, node, "plain", `1`)
		want("a plain publication", "")
		for i := range 3 {
			nodetest.Publish(t, node, "a", fmt.Sprint(i), nodetest.Keep(10, time.Hour))
			nodetest.Publish(t, node, "b", fmt.Sprint(i), nodetest.Keep(10, time.Hour))
		}
		if m := messages(l); len(m) != 6 || len(bookmark.Parse(strings.TrimPrefix(m[5][1], "id "))) != 2 {
			t.Errorf("two channels: %q", m)
		}
		nodetest.Must(t, node.Users().Refresh(t.Context(), all, &gyro.RefreshOptions{ExpireAt: time.Now().Add(time.Minute)}))
		want("a refresh", "")
		nodetest.Must(t, node.Users().Unsubscribe(t.Context(), all, "a", nil))
		want("an unsubscribe", "b3")
		nodetest.Must(t, node.Users().Unsubscribe(t.Context(), all, "b", nil))
		if m := messages(l); len(m) != 1 || m[0][1] != "id " {
			t.Errorf("the last unsubscribe: %q", m)
		}
		l.HangUp()
	})
}

// TestBookmarkLimit: without room for all positions there is no bookmark, and the rest is as usual.
func TestBookmarkLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		node := nodetest.Run(t, gyro.Config{Handlers: nodetest.Granted("a", "b"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l := withBookmarks(t, node, 100, "")
		if m := messages(l); len(m) != 1 || m[0][1] == "" {
			t.Fatalf("connect: %q", m)
		}
		nodetest.Must(t, node.Users().Subscribe(t.Context(), gyro.Target{User: "u"}, strings.Repeat("x", 100), &gyro.SubscribeOptions{Recoverable: true}))
		nodetest.Publish(t, node, "a", `1`, nodetest.Keep(10, time.Hour))
		if m := messages(l); len(m) != 2 || len(bookmark.Parse(strings.TrimPrefix(m[1][1], "id "))) != 2 {
			t.Errorf("a long name: %q", m)
		}
		for i := range 8 {
			nodetest.Must(t, node.Users().Subscribe(t.Context(), gyro.Target{User: "u"}, fmt.Sprint("more", i), &gyro.SubscribeOptions{Recoverable: true}))
		}
		messages(l)
		nodetest.Publish(t, node, "a", `2`, nodetest.Keep(10, time.Hour))
		nodetest.Publish(t, node, "a", `3`, nodetest.Keep(10, time.Hour))
		if m := messages(l); len(m) != 2 || m[0][1]+m[1][1] != "" {
			t.Errorf("too many channels: %q", m)
		}
		l.HangUp()
		nodetest.Must(t, node.Shutdown(t.Context()))
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
			node := nodetest.Run(t, gyro.Config{Handlers: nodetest.Granted(channels...)})
			sent, seen := make(map[string]int), make(map[string][]string)
			l := withBookmarks(t, node, 4096, "")
			last := strings.TrimPrefix(messages(l)[0][1], "id ")
			cut := func(after int) {
				for _, m := range messages(l) {
					if after--; after < 0 {
						break
					}
					if m[1] == "" {
						t.Fatalf("no bookmark: %q", m)
					}
					last = strings.TrimPrefix(m[1], "id ")
					note(t, m[0], seen)
				}
				l.HangUp()
			}
			publishSome := func() {
				for range r.IntN(30) {
					ch := channels[r.IntN(len(channels))]
					sent[ch]++
					nodetest.Publish(t, node, ch, fmt.Sprint(sent[ch]), nodetest.Keep(1000, time.Hour))
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
		node := nodetest.Run(t, gyro.Config{Handlers: news(full)})
		watcher, err := nodetest.OpenOneWay(t.Context(), node, `{"token":"watcher"}`)
		nodetest.Must(t, err)
		watcher.Read()
		info := nodetest.OneWay
		info.Brief, info.Connect = true, &protocol.ConnectRequest{Token: "brief"}
		l, err := nodetest.OpenLines(t.Context(), node, info)
		nodetest.Must(t, err)
		first, rest, _ := strings.Cut(l.Read(), "\n")
		if c := connectPush(t, first); c.Subs["news"] == nil || rest != "" {
			t.Errorf("got %q, %q", first, rest)
		}
		nodetest.Must(t, node.Users().Subscribe(t.Context(), gyro.Target{User: "brief"}, "more", &full))
		stats, err := node.PresenceStats(t.Context(), "news")
		if err != nil || stats.Clients != 1 {
			t.Errorf("presence of news: %+v, %v", stats, err)
		}
		if stats, err = node.PresenceStats(t.Context(), "more"); err != nil || stats.Clients != 0 {
			t.Errorf("presence of more: %+v, %v", stats, err)
		}
		l.HangUp()
		wantLines(t, watcher)
		watcher.HangUp()
		synctest.Wait()
	})
}
