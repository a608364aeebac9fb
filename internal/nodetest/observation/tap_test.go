package observation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/observe"
)

// tapping is a tap that runs.
type tapping struct {
	events []observe.Tapped
	stop   context.CancelFunc
	err    error
	over   chan struct{}
}

// watch starts a tap, which watches on all nodes when watch returns.
func watch(t *testing.T, n *gyro.Node, of observe.Tap) *tapping {
	w := &tapping{over: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	w.stop = stop
	go func() {
		defer close(w.over)
		for events, err := range n.Inspect().Tap(ctx, of) {
			w.events, w.err = append(w.events, events...), err
		}
	}()
	synctest.Wait()
	return w
}

// seen ends the tap and describes what it has seen.
func (w *tapping) seen() string {
	time.Sleep(time.Second) // of virtual time: it is fetched some times
	w.stop()
	<-w.over
	var lines []string
	for _, e := range w.events {
		line := strings.TrimSpace(fmt.Sprint(e.Event, " ", e.Type, " ", e.User, " ", e.Channel, " ", e.Code))
		if len(e.Protobuf) > 0 {
			line += " (Protobuf)"
		}
		lines = append(lines, line+" "+string(e.Message))
	}
	return strings.Join(lines, "\n")
}

// maxTaps is how many taps a node has at a time.
const maxTaps = 16

// begin starts n taps, which run until the test calls stop.
func begin(t *testing.T, on *gyro.Node, n int) (stop func()) {
	t.Helper()
	var all []*tapping
	for i := range n {
		all = append(all, watch(t, on, observe.Tap{Kind: observe.TapUser, Entity: fmt.Sprint(i)}))
	}
	return func() {
		t.Helper()
		for i, w := range all {
			w.stop()
			if <-w.over; !errors.Is(w.err, context.Canceled) {
				t.Errorf("tap %d ended with %v", i, w.err)
			}
		}
	}
}

func wantSeen(t *testing.T, got string, wants ...string) {
	t.Helper()
	rest := got
	for _, want := range wants {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Errorf("%q is not there, or too early, in\n%s", want, got)
			return
		}
		rest = after
	}
}

// TestTapOfUser: what happens to a user on any node is seen on another one, and nothing of other users.
func TestTapOfUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		w := watch(t, x.Nodes[0], observe.Tap{Kind: observe.TapUser, Entity: "u"})
		other := nodetest.Connect(t, x.Nodes[1], "v")
		other.Subscribe("ch", "")
		c := nodetest.Connect(t, x.Nodes[1], "u")
		c.Subscribe("ch", `"token":"a-secret"`)
		time.Sleep(time.Millisecond)
		nodetest.Must(t, errOf(x.Nodes[2].Publish(t.Context(), "ch", []byte(`{"n":1}`), nil)))
		synctest.Wait()
		other.Do(`"rpc":{"method":"other"}`)
		time.Sleep(time.Millisecond)
		nodetest.Must(t, x.Nodes[2].Users().Disconnect(t.Context(), gyro.Target{User: "u"}, nil))
		c.Disconnected()
		got := w.seen()
		wantSeen(t, got,
			"sent connect u", "received subscribe u ch", `"token":"***"`, "sent subscribe u",
			`delivered push_publication u ch 0 {"push":{"channel":"ch","pub":{"data":{"n":1}`, "disconnected  u  3503")
		for _, foreign := range []string{" v ", "a-secret", "other"} {
			if strings.Contains(got, foreign) {
				t.Errorf("%q is in\n%s", foreign, got)
			}
		}
		if !errors.Is(w.err, context.Canceled) {
			t.Errorf("the tap ended with %v", w.err)
		}
		// No node still watches: each has room for as many taps as it may have.
		stop := begin(t, x.Nodes[0], maxTaps)
		stop()
	})
}

// TestTapOfChannel: commands on a channel and their replies are seen, and each publication once for each node
// that has subscribers.
func TestTapOfChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		w := watch(t, x.Nodes[2], observe.Tap{Kind: observe.TapChannel, Entity: "ch"})
		var clients []*wstest.Client
		for i := range 4 {
			time.Sleep(time.Millisecond) // so that events are in the order of time
			c := nodetest.Connect(t, x.Nodes[i%2], fmt.Sprint("u", i))
			c.Subscribe("ch", "")
			clients = append(clients, c)
		}
		time.Sleep(time.Millisecond)
		clients[0].Subscribe("elsewhere", "")
		clients[0].Do(`"publish":{"channel":"ch","data":{"from":0}}`)
		clients[0].Do(`"publish":{"channel":"elsewhere","data":{"from":1}}`)
		got := w.seen()
		wantSeen(t, got, "received subscribe u0 ch", "sent subscribe u0 ch", "received subscribe u3 ch", "sent subscribe u3 ch", "received publish u0 ch")
		if n := strings.Count(got, `published push_publication  ch 0 {"push":{"channel":"ch","pub":{"data":{"from":0}`); n != 2 {
			t.Errorf("the publication was seen %d times, want 2, in\n%s", n, got)
		}
		if strings.Contains(got, "elsewhere") {
			t.Errorf("another channel is in\n%s", got)
		}
	})
}

// TestTapOfNobody: a kind that there is not, and more taps than allowed, are errors.
func TestTapOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.Open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{})
		first := func(of observe.Tap) error {
			for _, err := range n.Inspect().Tap(t.Context(), of) {
				return err
			}
			return errors.New("the tap has no element")
		}
		if err := first(observe.Tap{Kind: "room"}); err == nil || !strings.Contains(err.Error(), `"channel"`) {
			t.Errorf("%v", err)
		}
		end := begin(t, n, maxTaps)
		if err := first(observe.Tap{Kind: observe.TapUser}); err == nil || !strings.Contains(err.Error(), "16") {
			t.Errorf("%v", err)
		}
		end()
		for range maxTaps + 1 { // a tap ends with its loop
			nodetest.Must(t, first(observe.Tap{Kind: observe.TapUser}))
		}
	})
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }
