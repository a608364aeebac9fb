package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// clientsOf returns the users of the clients that a target selects, sorted.
func clientsOf(ctx context.Context, n *gyro.Node, target *gyro.Target) string {
	var users []string
	for c := range n.Clients(ctx, target) {
		users = append(users, fmt.Sprintf("%q", c.UserID()))
	}
	slices.Sort(users)
	return strings.Join(users, " ")
}

// A node lists its own clients, and counts those of a channel.
func TestClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{})
		want := func(step, clients string, subscribers int) {
			t.Helper()
			if got := clientsOf(t.Context(), node, nil); got != clients {
				t.Errorf("%s: clients of %s, want %s", step, got, clients)
			}
			if n, err := node.Inspect().NumSubscribers(t.Context(), "ch"); err != nil || n != subscribers {
				t.Errorf("%s: %d subscribers, want %d, %v", step, n, subscribers, err)
			}
		}
		want("nobody", ``, 0)
		wstest.Pipe(t, node) // has not connected
		ann, second, other := nodetest.Connect(t, node, "ann"), nodetest.Connect(t, node, "ann"), nodetest.Connect(t, node, "")
		for _, c := range []*wstest.Client{ann, second, other} {
			c.Subscribe("ch", "")
			c.Subscribe(fmt.Sprintf("of%p", c), "")
		}
		want("three", `"" "ann" "ann"`, 3)
		for target, want := range map[gyro.Target]string{
			{}:                                     ``,
			{Anonymous: true}:                      `""`,
			{Client: idOf(t, node)}:                `"ann"`,
			{User: "ann"}:                          `"ann" "ann"`,
			{User: "bob"}:                          ``,
			{User: "ann", Client: "none"}:          ``,
			{User: "ann", Session: "none"}:         ``,
			{User: "ann", Client: idOf(t, node)}:   `"ann"`,
			{User: "other", Client: idOf(t, node)}: ``,
		} {
			if got := clientsOf(t.Context(), node, &target); got != want {
				t.Errorf("%+v selects %s, want %s", target, got, want)
			}
		}
		for range node.Clients(t.Context(), nil) {
			break
		}
		for c := range node.Clients(t.Context(), &gyro.Target{User: "ann"}) {
			c.Disconnect(gyro.Disconnect{Code: 4100, Reason: "kicked"}) // what the loop body does, any method may
			subs, err := c.Subscriptions(t.Context())
			if err != nil || len(subs) != 0 {
				t.Errorf("%v, %v", subs, err)
			}
		}
		want("one", `""`, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if n, err := node.Inspect().NumSubscribers(ctx, "ch"); !errors.Is(err, context.Canceled) {
			t.Errorf("%d, %v", n, err)
		}
		nodetest.Must(t, node.Shutdown(t.Context()))
		want("ended", ``, 0)
		idle, err := gyro.New(gyro.Config{})
		nodetest.Must(t, err)
		if got := clientsOf(t.Context(), idle, nil); got != "" {
			t.Errorf("before Run there are %s", got)
		}
	})
}

// idOf returns the ID of a client of ann.
func idOf(t *testing.T, n *gyro.Node) string {
	for c := range n.Clients(t.Context(), &gyro.Target{User: "ann"}) {
		return c.ID()
	}
	t.Fatal("ann is not there")
	return ""
}

// What is known of a client, and changed, by its methods.
func TestInfoSubscribedRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := make(chan *gyro.Client, 1)
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.Connecting = func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "u", Info: []byte(`1`)}}, nil
		}
		h.Connected = func(_ context.Context, c *gyro.Client) { clients <- c }
		h.RPC = func(ctx context.Context, c *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			subscribed, err := c.IsSubscribed(ctx, e.Method) // in a handler
			return fmt.Append(nil, subscribed), err
		}
		node := nodetest.Run(t, gyro.Config{Handlers: h})
		c := wstest.Pipe(t, node)
		c.Connect("")
		client := <-clients
		subscribed := func(ch string, want bool) {
			t.Helper()
			if got, err := client.IsSubscribed(t.Context(), ch); err != nil || got != want {
				t.Errorf("subscribed to %s: %v, %v", ch, got, err)
			}
			if got := string(c.Do(`"rpc":{"method":"` + ch + `"}`).RPC.Data); got != fmt.Sprint(want) {
				t.Errorf("in a handler subscribed to %s: %s", ch, got)
			}
		}
		subscribed("a", false)
		c.Subscribe("a", "")
		subscribed("a", true)
		subscribed("b", false)
		client.Subscribe("b", nil)
		if p := c.Push(); p.Channel != "b" || p.Subscribe == nil {
			t.Errorf("got %+v, want the subscription", p)
		}
		subscribed("b", true)
		client.Unsubscribe("a")
		subscribed("a", false)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := client.IsSubscribed(ctx, "b"); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}

		c.Pushes()
		info := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := string(client.Info()); got != want {
				t.Errorf("info %s, want %s", got, want)
			}
		}
		info(`1`)
		client.Refresh(&gyro.RefreshOptions{ExpireAt: time.Now().Add(time.Minute), Info: []byte(`2`)})
		if p := c.Push(); p.Refresh == nil || !p.Refresh.Expires || p.Refresh.TTL != 60 {
			t.Errorf("%+v", p)
		}
		info(`2`)
		client.Refresh(nil) // no longer expires
		if p := c.Push(); p.Refresh == nil || p.Refresh.Expires {
			t.Errorf("%+v", p)
		}
		info(`2`)
		client.Refresh(&gyro.RefreshOptions{Expired: true})
		nodetest.WantDisconnect(t, c, protocol.DisconnectExpired)
		client.Refresh(&gyro.RefreshOptions{ExpireAt: time.Now().Add(time.Minute)}) // does nothing
		if got, err := client.IsSubscribed(t.Context(), "b"); err != nil || got {
			t.Errorf("after the end: %v, %v", got, err)
		}
		nodetest.Must(t, node.Shutdown(t.Context()))
		if _, err := client.IsSubscribed(t.Context(), "b"); !errors.Is(err, protocol.DisconnectShutdown) {
			t.Errorf("after the node: %v", err)
		}
	})
}

// All goroutines may ask at once, while clients come and go and change.
func TestClientsConcurrently(t *testing.T) {
	node := nodetest.Open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{})
	var asking, living sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for c := range node.Clients(t.Context(), nil) {
					_, _ = c.Info(), c.Meta()
					if _, err := c.IsSubscribed(t.Context(), "ch"); err != nil {
						t.Error(err)
					}
					c.Refresh(&gyro.RefreshOptions{ExpireAt: time.Now().Add(time.Hour), Info: []byte(`1`)})
				}
				if n, err := node.Inspect().NumSubscribers(t.Context(), "ch"); err != nil || n < 0 || n > 8*20 {
					t.Errorf("%d subscribers, %v", n, err)
				}
			}
		})
	}
	for i := range 8 {
		living.Go(func() {
			for range 20 {
				c := nodetest.Connect(t, node, fmt.Sprint("user", i%3))
				c.Subscribe("ch", "")
				c.Vanish()
			}
		})
	}
	living.Wait()
	close(done)
	asking.Wait()
}
