package nodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/protocol"
)

// wantReason checks an ErrorBadRequest and its text.
func wantReason(t *testing.T, what string, err error, text string) {
	t.Helper()
	if !errors.Is(err, protocol.ErrorBadRequest) || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("%s: %v, want %q", what, err, text)
	}
}

// Operations on users take no code that clients would not understand. The client stays as it is.
func TestCodesOfOperations(t *testing.T) {
	node := nodetest.Open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{})
	c := nodetest.Connect(t, node, "u")
	c.Subscribe("ch", "")
	for _, code := range []uint32{0, 5, 1234, 2999, 5000, 70000} {
		o := &gyro.DisconnectOptions{Disconnect: &gyro.Disconnect{Code: code, Reason: "r"}}
		wantReason(t, "Disconnect", node.Users().Disconnect(t.Context(), gyro.Target{User: "u"}, o), fmt.Sprint("from 3000 to 4999, not ", code))
	}
	for _, code := range []uint32{0, 5, 1999, 3000, 3500} {
		err := node.Users().Unsubscribe(t.Context(), gyro.Target{User: "u"}, "ch", &gyro.Unsubscribe{Code: code, Reason: "r"})
		wantReason(t, "Unsubscribe", err, fmt.Sprint("from 2000 to 2999, not ", code))
	}
	c.Do(`"rpc":{}`)
	if p := c.Pushes(); len(p) > 0 {
		t.Errorf("got %+v", p[0])
	}
	for _, code := range []uint32{3000, 3999, 4000, 4999} {
		nodetest.Must(t, node.Users().Disconnect(t.Context(), gyro.Target{User: "nobody"}, &gyro.DisconnectOptions{Disconnect: &gyro.Disconnect{Code: code}}))
	}
}

// ending is a feed that ends at once.
type ending struct{ with gyro.Unsubscribe }

func (e ending) Run(func(*gyro.Publication) error) gyro.Unsubscribe { return e.with }
func (ending) Close()                                               {}

// What handlers, clients and feeds give is replaced, and the log names the code and the range.
func TestCodesOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Buffer
		var answer error
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.RPC = func(_ context.Context, c *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			if e.Method == "kick" {
				c.Disconnect(gyro.Disconnect{})
			}
			return nil, answer
		}
		h.Subscribe = func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{Feed: ending{gyro.Unsubscribe{Code: 3500}}}, nil
		}
		node := nodetest.Run(t, gyro.Config{Handlers: h, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		logged := func(text string) {
			t.Helper()
			if synctest.Wait(); !strings.Contains(log.Take(), text) {
				t.Errorf("the log lacks %q", text)
			}
		}
		for _, d := range []error{gyro.Disconnect{}, &gyro.Disconnect{Code: 1234}, fmt.Errorf("because: %w", gyro.Disconnect{Code: 70000})} {
			c := nodetest.Connect(t, node, "u")
			answer = d
			c.Start(`"rpc":{}`)
			nodetest.WantDisconnect(t, c, protocol.DisconnectServerError)
			logged("the code of a disconnect is from 3000 to 4999, not ")
		}
		c := nodetest.Connect(t, node, "u")
		for _, e := range []error{gyro.Error{}, &gyro.Error{Code: 5}, fmt.Errorf("because: %w", gyro.Error{Code: 2500})} {
			answer = e
			if r := c.Await(c.Start(`"rpc":{}`)); r.Error == nil || *r.Error != *protocol.ErrorInternal {
				t.Errorf("%v: %+v", e, r.Error)
			}
			logged("the code of an error is from 100 to 1999, not ")
		}
		answer = nil
		c.Subscribe("ch", "")
		if p := c.Push(); p.Unsubscribe == nil || *p.Unsubscribe != protocol.UnsubscribeServer {
			t.Errorf("got %+v", p)
		}
		logged("the code of an unsubscribe is from 2000 to 2999, not 3500")
		c.Start(`"rpc":{"method":"kick"}`)
		nodetest.WantDisconnect(t, c, protocol.DisconnectForceNoReconnect)
		logged("the code of a disconnect is from 3000 to 4999, not 0")
		if n := node.NumClients(); n != 0 {
			t.Errorf("%d clients are left", n)
		}
	})
}

// Another node's software may send any code. Its commands are done, with codes that clients understand.
func TestCodesOfOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		c := nodetest.Connect(t, x.Nodes[0], "u")
		c.Subscribe("ch", "")
		// A Command (control.proto) from "x" has the fields uid, and unsubscribe or disconnect with a user.
		x.Bus.Inject("", []byte("\x0a\x01x\x2a\x07\x0a\x02ch\x12\x01u"))
		if p := c.Push(); p.Unsubscribe == nil || *p.Unsubscribe != protocol.UnsubscribeServer {
			t.Errorf("got %+v", p)
		}
		x.Bus.Inject("", []byte("\x0a\x01x\x32\x05\x0a\x01u\x18\x05"))
		nodetest.WantDisconnect(t, c, protocol.DisconnectForceNoReconnect)
	})
}

// A Target says whom it selects. What it leaves open is open.
func TestWhomTargetsSelect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		ctx, node := t.Context(), x.Nodes[0]
		for what, err := range map[string]error{
			"Subscribe": node.Users().Subscribe(ctx, gyro.Target{}, "ch", nil), "Unsubscribe": node.Users().Unsubscribe(ctx, gyro.Target{}, "ch", nil),
			"Disconnect": node.Users().Disconnect(ctx, gyro.Target{}, nil), "Refresh": node.Users().Refresh(ctx, gyro.Target{}, nil),
		} {
			wantReason(t, what, err, "the Target is empty")
		}
		wantReason(t, "both", node.Users().Disconnect(ctx, gyro.Target{User: "u", Anonymous: true}, nil), "contradict")
		for range node.Clients(ctx, new(gyro.Target)) {
			t.Error("an empty Target selects a client")
		}
		named, ids := everywhere(t, x, "u")
		anonymous, theirs := everywhere(t, x, "")
		for i, id := range ids { // on the node that is asked, and on others
			nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{Client: id, Anonymous: true}, nil))
			nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{Client: id, User: "v"}, nil))
			named[i].Do(`"rpc":{}`)
			nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{Client: id}, nil))
			nodetest.WantDisconnect(t, named[i], protocol.DisconnectForceNoReconnect)
		}
		nodetest.Must(t, node.Users().Unsubscribe(ctx, gyro.Target{Client: theirs[1]}, "ch", nil))
		if p := anonymous[1].Push(); p.Unsubscribe == nil {
			t.Errorf("got %+v", p)
		}
		found := 0
		for c := range x.Nodes[2].Clients(ctx, &gyro.Target{Client: theirs[2]}) {
			if found++; c.ID() != theirs[2] {
				t.Errorf("%s is %s", theirs[2], c.ID())
			}
		}
		if found != 1 {
			t.Errorf("%d clients have one ID", found)
		}
		nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{Client: "no ID"}, nil))
		nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{Anonymous: true}, nil))
		for _, c := range anonymous {
			nodetest.WantDisconnect(t, c, protocol.DisconnectForceNoReconnect)
		}
	})
}
