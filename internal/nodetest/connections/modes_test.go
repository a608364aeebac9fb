package connections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/bustest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// news subscribes every client to a channel.
func news(o gyro.SubscribeOptions) gyro.Handlers {
	h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
	h.Connecting = func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
		if e.Token == "" {
			return gyro.ConnectReply{}, protocol.ErrorTokenExpired
		}
		subs := map[string]gyro.SubscribeOptions{"news": o}
		return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: e.Token}, Subscriptions: subs}, nil
	}
	return h
}

// push takes a connect push from the lines of a client.
func connectPush(t *testing.T, line string) *protocol.Connect {
	t.Helper()
	var p protocol.Push
	if err := json.Unmarshal([]byte(line), &p); err != nil || p.Connect == nil {
		t.Fatalf("%q: %v", line, err)
	}
	return p.Connect
}

func wantLines(t *testing.T, l *nodetest.Lines, want ...string) {
	t.Helper()
	text := ""
	for _, line := range want {
		text += line + "\n"
	}
	if got := l.Read(); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
}

// awaitPing lets time pass until the client gets something, which is a ping.
func awaitPing(t *testing.T, l *nodetest.Lines) {
	t.Helper()
	for range 30 {
		time.Sleep(time.Second)
		if text := l.Read(); text != "" {
			if text != "{}\n" {
				t.Errorf("got %q, want a ping", text)
			}
			return
		}
	}
	t.Error("no ping")
}

func TestOneWay(t *testing.T) {
	for _, looped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			node := nodetest.Run(t, gyro.Config{Handlers: news(gyro.SubscribeOptions{EmitJoinLeave: true, PushJoinLeave: true})})
			var a transport.Acceptor = node
			if looped {
				a = nodetest.OnLoops(node)
			}
			playOneWay(t, node, a)
		})
	}
}

func playOneWay(t *testing.T, node *gyro.Node, a transport.Acceptor) {
	ctx := t.Context()
	l, err := nodetest.OpenOneWay(ctx, a, `{"token":"u","name":"curl"}`)
	nodetest.Must(t, err)
	first, rest, _ := strings.Cut(l.Read(), "\n")
	c := connectPush(t, first)
	if id, err := uuid.Parse(c.Session); err != nil || id.Version() != 4 || c.Session == c.Client {
		t.Errorf("session %q of client %q", c.Session, c.Client)
	}
	if c.Client == "" || c.Ping != 25 || c.Pong || c.Node != "" || c.Subs["news"] == nil {
		t.Errorf("got %+v", c)
	}
	if want := fmt.Sprintf(`{"channel":"news","join":{"info":{"user":"u","client":"%s"}}}`, c.Client); rest != want+"\n" {
		t.Errorf("got %q", rest)
	}

	nodetest.Publish(t, node, "news", `{"n":1}`)
	nodetest.Publish(t, node, "news", `2`)
	wantLines(t, l, `{"channel":"news","pub":{"data":{"n":1}}}`, `{"channel":"news","pub":{"data":2}}`)
	l.Peer.Receive([]byte(`{"id":1,"rpc":{}}`))
	nodetest.Must(t, node.Emulate(ctx, node.UID(), c.Session, []byte(`"{\"id\":1,\"rpc\":{}}"`)))
	wantLines(t, l) // nothing

	// Another connection of the user has another session.
	other, err := nodetest.OpenOneWay(ctx, a, `{"token":"u"}`)
	nodetest.Must(t, err)
	line, _, _ := strings.Cut(other.Read(), "\n")
	if s := connectPush(t, line).Session; s == c.Session || s == "" {
		t.Errorf("session %q beside %q", s, c.Session)
	}
	other.HangUp()
	l.Read()

	session := gyro.Target{User: "u", Session: c.Session}
	nodetest.Must(t, node.Users().Subscribe(ctx, session, "more", nil))
	wantLines(t, l, `{"channel":"more","subscribe":{}}`)
	nodetest.Must(t, node.Users().Refresh(ctx, session, &gyro.RefreshOptions{ExpireAt: time.Now().Add(100 * time.Second)}))
	wantLines(t, l, `{"refresh":{"expires":true,"ttl":100}}`)
	nodetest.Must(t, node.Users().Unsubscribe(ctx, session, "more", nil))
	wantLines(t, l, `{"channel":"more","unsubscribe":{"code":2000,"reason":"server unsubscribe"}}`)
	nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{User: "another", Session: c.Session}, nil)) // narrows, and never widens
	nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{User: "u", Session: c.Session, Client: "another"}, nil))
	nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{User: "u", Session: uuid.NewString()}, nil))
	nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{User: "u", Session: "no ID"}, nil))
	awaitPing(t, l)
	nodetest.Must(t, node.Users().Disconnect(ctx, session, nil))
	wantLines(t, l, `{"disconnect":{"code":3503,"reason":"force disconnect"}}`)
	if n := node.NumClients(); n != 0 {
		t.Errorf("%d clients are left", n)
	}

	l, err = nodetest.OpenOneWay(ctx, a, `null`)
	nodetest.Must(t, err)
	wantLines(t, l, `{"disconnect":{"code":3005,"reason":"connection expired"}}`)
	if _, err := nodetest.OpenOneWay(ctx, a, `{"token":7}`); err == nil {
		t.Error("no connect request, but accepted")
	}
}

// Connections of all modes share what is published, each in its form.
func TestModesShareChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Run(t, gyro.Config{Handlers: news(gyro.SubscribeOptions{})})
		l, err := nodetest.OpenOneWay(t.Context(), node, `{"token":"u"}`)
		nodetest.Must(t, err)
		e := openEmulated(t, node)
		l.Read()
		c := nodetest.Connect(t, node, "v")
		nodetest.Publish(t, node, "news", `1`)
		wantLines(t, l, `{"channel":"news","pub":{"data":1}}`)
		wantLines(t, e.Lines, `{"push":{"channel":"news","pub":{"data":1}}}`)
		nodetest.WantPub(t, c, `1`)
		nodetest.Must(t, node.Users().Disconnect(t.Context(), gyro.Target{User: "v", Session: ""}, nil)) // selects nothing: all
		nodetest.WantDisconnect(t, c, protocol.DisconnectForceNoReconnect)
		for _, l := range []*nodetest.Lines{l, e.Lines} {
			l.HangUp()
		}
		synctest.Wait()
	})
}

// emulatedClient is a client with an emulated connection.
type emulatedClient struct {
	*nodetest.Lines
	*protocol.ConnectResult
}

func openEmulated(t *testing.T, n *gyro.Node) emulatedClient {
	t.Helper()
	l, err := nodetest.OpenLines(t.Context(), n, nodetest.Emulated)
	nodetest.Must(t, err)
	l.Peer.Receive([]byte(`{"id":1,"connect":{"token":"e"}}`))
	var r protocol.Reply
	if text := l.Read(); json.Unmarshal([]byte(text), &r) != nil || r.Connect == nil {
		t.Fatalf("got %q", text)
	}
	return emulatedClient{l, r.Connect}
}

// send has a node take commands.
func (e *emulatedClient) send(t *testing.T, n *gyro.Node, commands ...string) {
	t.Helper()
	data, err := json.Marshal(strings.Join(commands, "\n"))
	nodetest.Must(t, err)
	nodetest.Must(t, n.Emulate(t.Context(), e.Node, e.Session, data))
}

// pair runs two nodes on a bus, in virtual time, which know each other.
func pair(t *testing.T, h gyro.Handlers) (here, there *gyro.Node) {
	here, there = onBus(t, h)
	synctest.Wait()
	return here, there
}

// onBus runs two nodes on a bus.
func onBus(t *testing.T, h gyro.Handlers) (here, there *gyro.Node) {
	bus, presence := bustest.New(t), memory.NewPresence(memory.Config{})
	node := func() *gyro.Node {
		return nodetest.Run(t, gyro.Config{Broker: bus.Engine(), Presence: presence, Handlers: h, Logger: nodetest.Quiet})
	}
	return node(), node()
}

// Loops dispatch the commands of their own sessions at once, and know where the others are.
func TestEmulatedOnLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		e := openEmulated(t, here)
		loops, emulate := nodeaccess.Of(here), nodeaccess.EmulateOf(here)
		ask := func(l transport.Loop, node, session, data string) transport.Loop {
			answer := make(chan transport.Loop)
			l.Post(func() { answer <- emulate(l, node, session, []byte(data)) })
			return <-answer
		}
		for i := range 20 { // the loops take turns
			l := loops.NextLoop()
			data, err := json.Marshal(fmt.Sprintf(`{"id":%d,"rpc":{}}`, i+2))
			nodetest.Must(t, err)
			if next := ask(l, e.Node, e.Session, string(data)); next != l {
				wantLines(t, e.Lines)
				if again := ask(next, e.Node, e.Session, string(data)); again != next {
					t.Fatal("a loop does not know its session")
				}
			}
			wantLines(t, e.Lines, fmt.Sprintf(`{"id":%d,"rpc":{}}`, i+2))
			for _, session := range []string{"no ID", strings.ToUpper(e.Session), "{" + e.Session + "}"} {
				if next := ask(l, e.Node, session, `"{}"`); next != l {
					t.Errorf("session %q: to be asked again", session)
				}
			}
			for _, node := range []string{"", "nobody", there.UID()} {
				if next := ask(l, node, e.Session, `"{}"`); next != nil {
					t.Errorf("node %q: answered", node)
				}
			}
			unknown := uuid.NewString()
			if next := ask(l, e.Node, unknown, `"{}"`); next != l && ask(next, e.Node, unknown, `"{}"`) != next {
				t.Error("an unknown session is nowhere")
			}
			if next := ask(l, e.Node, e.Session, "null"); next != l {
				ask(next, e.Node, e.Session, "null")
			}
		}
		wantLines(t, e.Lines)
	})
}

func TestEmulatedAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		e := openEmulated(t, here)
		if id, err := uuid.Parse(e.Session); err != nil || id.Version() != 4 || e.Node != here.UID() || !e.Pong {
			t.Errorf("got %+v", e.ConnectResult)
		}
		for i, n := range []*gyro.Node{here, there} {
			ch, id := fmt.Sprint("ch", i), 10*(i+1)
			e.send(t, n, fmt.Sprintf(`{"id":%d,"subscribe":{"channel":"%s"}}`, id, ch), fmt.Sprintf(`{"id":%d,"rpc":{}}`, id+1))
			wantLines(t, e.Lines, fmt.Sprintf(`{"id":%d,"subscribe":{}}`, id), fmt.Sprintf(`{"id":%d,"rpc":{}}`, id+1))
			nodetest.Publish(t, there, ch, `1`)
			wantLines(t, e.Lines, fmt.Sprintf(`{"push":{"channel":"%s","pub":{"data":1}}}`, ch))
		}
		for _, n := range []*gyro.Node{here, there} { // each ping is answered by a pong
			awaitPing(t, e.Lines)
			e.send(t, n, `{}`)
		}

		// What nobody can use is passed over, wherever it comes.
		ctx := t.Context()
		for _, n := range []*gyro.Node{here, there} {
			nodetest.Must(t, n.Emulate(ctx, e.Node, uuid.NewString(), []byte(`"{}"`)))
			nodetest.Must(t, n.Emulate(ctx, e.Node, "no ID", []byte(`"{}"`)))
			nodetest.Must(t, n.Emulate(ctx, e.Node, strings.ToUpper(e.Session), []byte(`"{}"`)))
			nodetest.Must(t, n.Emulate(ctx, e.Node, e.Session, []byte(`{}`)))
			nodetest.Must(t, n.Emulate(ctx, e.Node, e.Session, []byte(`null`)))
			nodetest.Must(t, n.Emulate(ctx, there.UID(), e.Session, []byte(`"{}"`)))
			for _, node := range []string{"", "nobody"} {
				if err := n.Emulate(ctx, node, e.Session, nil); !errors.Is(err, transport.ErrUnknownNode) || !errors.Is(err, gyro.ErrUnknownNode) {
					t.Errorf("node %q: %v", node, err)
				}
			}
			if err := n.Emulate(ctx, e.Node, e.Session, make([]byte, 1<<20+1)); !errors.Is(err, protocol.ErrorLimitExceeded) {
				t.Error(err)
			}
		}
		wantLines(t, e.Lines)

		nodetest.Must(t, there.Users().Unsubscribe(ctx, gyro.Target{User: "e", Session: e.Session}, "ch0", nil))
		wantLines(t, e.Lines, `{"push":{"channel":"ch0","unsubscribe":{"code":2000,"reason":"server unsubscribe"}}}`)
		e.send(t, there, `{"id":1`)
		wantLines(t, e.Lines, `{"push":{"disconnect":{"code":3501,"reason":"bad request"}}}`)
		e.send(t, there, `{"id":30,"rpc":{}}`) // to nobody
		wantLines(t, e.Lines)
	})
}

// Each request's commands are done in their order, with none of another in between.
func TestEmulatedRequestsAreAtomic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var done []string
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.RPC = func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			done = append(done, e.Method)
			return nil, nil
		}
		here, there := pair(t, h)
		e := openEmulated(t, here)
		const requests, commands = 40, 30 // together more than a session works on at a time
		for i := range requests {
			go func() {
				var list []string
				for j := range commands {
					list = append(list, fmt.Sprintf(`{"id":1,"rpc":{"method":"%d %d"}}`, i, j))
				}
				e.send(t, []*gyro.Node{here, there}[i%2], list...)
			}()
		}
		synctest.Wait()
		seen := make(map[string]bool)
		for request := range slices.Chunk(done, commands) {
			i, _, _ := strings.Cut(request[0], " ")
			seen[i] = true
			for j, method := range request {
				if want := fmt.Sprint(i, " ", j); method != want {
					t.Fatalf("%s where %s was to come", method, want)
				}
			}
		}
		if len(seen) != requests {
			t.Errorf("%d of %d requests", len(seen), requests)
		}
		e.HangUp()
	})
}

// A client that sends more than may wait is disconnected, as with every transport.
func TestEmulatedCommandsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.RPC = func(_ context.Context, c *gyro.Client, _ gyro.RPCEvent) ([]byte, error) {
			<-c.Context().Done()
			return nil, nil
		}
		node := nodetest.Run(t, gyro.Config{Handlers: h, CommandLimit: 1, Logger: slog.New(slog.DiscardHandler)})
		e := openEmulated(t, node)
		large := fmt.Sprintf(`{"id":2,"rpc":{"data":"%0500000d"}}`, 1)
		for range 3 {
			e.send(t, node, large)
		}
		wantLines(t, e.Lines)
		e.send(t, node, large)
		wantLines(t, e.Lines, `{"push":{"disconnect":{"code":3013,"reason":"too many requests"}}}`)
	})
}

// A poll connection is written to while a request fetches, and pings need no answer.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Run(t, gyro.Config{Handlers: news(gyro.SubscribeOptions{})})
		info := nodetest.Emulated
		info.Mode = transport.Poll
		l, err := nodetest.OpenLines(t.Context(), node, info)
		nodetest.Must(t, err)
		l.Peer.Receive([]byte(`{"id":1,"connect":{"token":"u"}}`))
		text := l.Read()
		if !strings.Contains(text, `"session":`) || !strings.Contains(text, `"node":"`+node.UID()) || strings.Contains(text, "pong") {
			t.Errorf("got %q", text)
		}
		l.Shut(true)
		nodetest.Publish(t, node, "news", `1`)
		wantLines(t, l)
		l.Shut(false)
		l.Peer.Writable()
		wantLines(t, l, `{"push":{"channel":"news","pub":{"data":1}}}`)
		awaitPing(t, l)
		awaitPing(t, l)
		l.HangUp()
	})
}
