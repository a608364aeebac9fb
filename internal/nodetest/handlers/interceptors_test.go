package handlers

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
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

// Handlers answer presence and history themselves, also with nothing, and nobody else is
// asked then.
func TestHandlersAnswerPresenceAndHistory(t *testing.T) {
	var answer gyro.HistoryReply
	var stats gyro.PresenceStatsReply
	var present gyro.PresenceReply
	h := nodetest.Everything(gyro.SubscribeOptions{Presence: true}, gyro.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute})
	h.Presence = func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceReply, error) {
		return present, nil
	}
	h.PresenceStats = func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceStatsReply, error) {
		return stats, nil
	}
	h.History = func(context.Context, *gyro.Client, gyro.HistoryEvent) (gyro.HistoryReply, error) { return answer, nil }
	c := nodetest.Connect(t, nodetest.Run(t, gyro.Config{Handlers: h}), "u")
	c.Subscribe("ch", "")
	c.Do(`"publish":{"channel":"ch","data":1}`)
	check := func(what string, who, clients, users, pubs int, offset uint64) {
		t.Helper()
		p, s := c.Do(`"presence":{"channel":"ch"}`).Presence, c.Do(`"presence_stats":{"channel":"ch"}`).PresenceStats
		hist := c.Do(`"history":{"channel":"ch","limit":-1}`).History
		if len(p.Presence) != who || s.NumClients != uint32(clients) || s.NumUsers != uint32(users) || len(hist.Publications) != pubs || hist.Offset != offset {
			t.Errorf("%s: %+v, %+v, %+v", what, p, s, hist)
		}
	}
	check("the engine", 1, 1, 1, 1, 1)
	present.Clients, stats.Stats, answer.History = map[string]*gyro.ClientInfo{}, new(gyro.PresenceStats), new(gyro.History)
	check("nothing", 0, 0, 0, 0, 0)
	present.Clients = map[string]*gyro.ClientInfo{"a": {User: "x"}, "b": {User: "x"}, "c": {User: "y"}}
	stats.Stats = &gyro.PresenceStats{Clients: 3, Users: 2}
	answer.History = &gyro.History{Publications: []*gyro.Publication{{Offset: 6, Data: []byte(`6`)}, {Offset: 7, Data: []byte(`7`)}}, Top: gyro.StreamPosition{Offset: 9, Epoch: "e"}}
	check("their own", 3, 3, 2, 2, 9)
}

// trace notes what passes an interceptor, in and out.
type trace struct {
	mu    sync.Mutex
	lines []string
}

func (x *trace) note(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lines = append(x.lines, fmt.Sprintf(format, args...))
}

func (x *trace) expect(t *testing.T, want ...string) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Equal(x.lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(x.lines, "\n"), strings.Join(want, "\n"))
	}
	x.lines = nil
}

// passed is the key of what an interceptor puts into the context.
type passed string

func (x *trace) around(name string) gyro.Interceptor {
	return func(next gyro.HandlerFunc) gyro.HandlerFunc {
		return func(ctx context.Context, call gyro.Call) (any, error) {
			if call.Handler != "Publish" && call.Handler != "Subscribe" {
				return next(ctx, call)
			}
			x.note("%s: %s of %s", name, call.Handler, call.Client.UserID())
			reply, err := next(context.WithValue(ctx, passed(name), true), call)
			x.note("%s: %T, %v", name, reply, err)
			return reply, err
		}
	}
}

// The first interceptor is outermost. One may change the event, the context, the reply and
// the error, and answer in place of the handler.
func TestInterceptors(t *testing.T) {
	var x trace
	h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
	h.Publish = func(ctx context.Context, _ *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
		x.note("handler: %s, %v", e.Data, ctx.Value(passed("outer")) == true && ctx.Value(passed("inner")) == true)
		return gyro.PublishReply{Data: e.Data}, nil
	}
	inner := func(next gyro.HandlerFunc) gyro.HandlerFunc {
		return func(ctx context.Context, call gyro.Call) (any, error) {
			e, ok := call.Event.(gyro.PublishEvent)
			if !ok {
				return next(ctx, call)
			}
			switch string(e.Data) {
			case `"refuse"`:
				return nil, gyro.ErrorPermissionDenied
			case `"answer"`:
				return gyro.PublishReply{Published: true}, nil
			case `"wrong reply"`:
				return gyro.SubscribeReply{}, nil
			case `"no reply"`:
				return nil, nil
			case `"wrong event"`:
				call.Event = gyro.RPCEvent{}
				return next(ctx, call)
			}
			e.Data = []byte(`"changed"`)
			call.Event = e
			reply, err := next(ctx, call)
			if r, ok := reply.(gyro.PublishReply); ok {
				r.Data = []byte(`"changed twice"`)
				reply = r
			}
			return reply, err
		}
	}
	node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Handlers: h, Interceptors: []gyro.Interceptor{x.around("outer"), x.around("inner"), inner}})
	c := nodetest.Connect(t, node, "u")
	c.Subscribe("ch", "")
	x.expect(t, "outer: Subscribe of u", "inner: Subscribe of u", "inner: gyro.SubscribeReply, <nil>", "outer: gyro.SubscribeReply, <nil>")
	c.Do(`"publish":{"channel":"ch","data":1}`)
	nodetest.WantPub(t, c, `"changed twice"`)
	x.expect(t, "outer: Publish of u", "inner: Publish of u", `handler: "changed", true`, "inner: gyro.PublishReply, <nil>", "outer: gyro.PublishReply, <nil>")
	c.Do(`"publish":{"channel":"ch","data":"answer"}`)
	x.expect(t, "outer: Publish of u", "inner: Publish of u", "inner: gyro.PublishReply, <nil>", "outer: gyro.PublishReply, <nil>")
	for data, want := range map[string]*protocol.Error{
		"refuse": protocol.ErrorPermissionDenied, "wrong reply": protocol.ErrorInternal, "no reply": protocol.ErrorInternal, "wrong event": protocol.ErrorInternal,
	} {
		if r := c.Call(`"publish":{"channel":"ch","data":"` + data + `"}`); r.Error == nil || r.Error.Code != want.Code {
			t.Errorf("%s: got %+v, want %v", data, r, want)
		}
	}
}

// Interceptors see inline calls, and the second ones where a handler or they themselves
// would block.
func TestInterceptorsInline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x trace
		declines := func(next gyro.HandlerFunc) gyro.HandlerFunc {
			return func(ctx context.Context, call gyro.Call) (any, error) {
				if e, ok := call.Event.(gyro.SubscribeEvent); ok && e.Inline && e.Channel == "a" {
					return nil, gyro.ErrWouldBlock
				}
				return next(ctx, call)
			}
		}
		node := nodetest.Run(t, gyro.Config{InlineHandlers: true, Interceptors: []gyro.Interceptor{x.around("outer"), declines}, Handlers: gyro.Handlers{
			Connecting: nodetest.As,
			Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
				x.note("handler: inline %v", e.Inline)
				if e.Inline && e.Channel == "b" {
					return gyro.SubscribeReply{}, gyro.ErrWouldBlock
				}
				return gyro.SubscribeReply{}, nil
			},
		}})
		c := nodetest.Connect(t, node, "u")
		twice := func(first ...string) []string {
			return append(append([]string{"outer: Subscribe of u"}, first...), "outer: <nil>, "+gyro.ErrWouldBlock.Error(),
				"outer: Subscribe of u", "handler: inline false", "outer: gyro.SubscribeReply, <nil>")
		}
		synctest.Wait()
		c.Subscribe("a", "")
		x.expect(t, twice()...)
		synctest.Wait()
		c.Subscribe("b", "")
		reply := twice("handler: inline true")
		reply[2] = strings.Replace(reply[2], "<nil>", "gyro.SubscribeReply", 1)
		x.expect(t, reply...)
		synctest.Wait()
		c.Subscribe("c", "")
		x.expect(t, "outer: Subscribe of u", "handler: inline true", "outer: gyro.SubscribeReply, <nil>")
	})
}

// What an interceptor does wrong where nobody waits for an answer is logged, and a panic is
// contained.
func TestInterceptorsThatFail(t *testing.T) {
	var logged bytes.Buffer
	fails := func(next gyro.HandlerFunc) gyro.HandlerFunc {
		return func(ctx context.Context, call gyro.Call) (any, error) {
			switch call.Handler {
			case "RPC":
				panic("oops")
			case "Disconnected":
				return nil, fmt.Errorf("no farewell")
			}
			return next(ctx, call)
		}
	}
	h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
	h.Disconnected = func(context.Context, *gyro.Client, gyro.DisconnectEvent) { t.Error("the handler was called") }
	node, err := gyro.New(gyro.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil)), Handlers: h, Interceptors: []gyro.Interceptor{fails}})
	nodetest.Must(t, err)
	nodetest.Must(t, node.Run())
	c := wstest.Pipe(t, node)
	c.Connect(`"token":"u"`)
	if r := c.Call(`"rpc":{}`); r.Error == nil || r.Error.Code != protocol.ErrorInternal.Code {
		t.Errorf("got %+v", r)
	}
	nodetest.Must(t, node.Shutdown(t.Context()))
	if node.Inspect().Panics() != 1 || !strings.Contains(logged.String(), "no farewell") || !strings.Contains(logged.String(), "handler=Disconnected") {
		t.Errorf("%d panics, log: %s", node.Inspect().Panics(), logged.String())
	}
}

func TestInterceptorsMustNotBeNil(t *testing.T) {
	pass := func(next gyro.HandlerFunc) gyro.HandlerFunc { return next }
	if _, err := gyro.New(gyro.Config{Interceptors: []gyro.Interceptor{pass, nil}}); err == nil || err.Error() != "gyro: Interceptors[1] must not be nil" {
		t.Errorf("got %v", err)
	}
}
