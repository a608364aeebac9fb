package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
)

// application is the book of the handlers: which were called for which client, in which order. Handlers of different
// clients run at the same time, so it has a lock.
type application struct {
	r       *run
	mu      sync.Mutex
	clients map[string]*served // by client ID
}

// served is a client as its handlers see it.
type served struct {
	name                    string // of the connection
	user                    string
	node                    *gyro.Node
	at                      time.Duration // disconnected
	running                 string        // a handler
	connected, disconnected bool
	code                    uint32 // of the disconnect
	allowed, ended          map[string]int
	ordered                 map[string]int // ends by commands of the server API, by reason
	latest                  int            // number of a command
}

func (a *application) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	a.r.tell("book "+text, func() { a.r.fail("%s", text) })
}

// watch is around all handlers.
func (a *application) watch(m *machine) gyro.Interceptor {
	return func(next gyro.HandlerFunc) gyro.HandlerFunc {
		return func(ctx context.Context, call gyro.Call) (reply any, err error) {
			c := call.Client
			if c == nil {
				if e, ok := call.Event.(gyro.ConnectEvent); ok {
					if err := a.r.ask(ctx, m, "Connecting "+e.Transport.RemoteAddr); err != nil {
						return nil, err
					}
				}
				return next(ctx, call)
			}
			s := a.enter(m.node, c, call)
			ended := false
			defer func() { a.leave(s, call, ended, err) }()
			if err = a.r.ask(ctx, m, call.Handler+" "+s.name+" "+about(call.Event)); err == nil {
				reply, err = next(ctx, call)
			}
			ended = true
			return reply, err
		}
	}
}

// about is the channel of an event.
func about(event any) string {
	switch e := event.(type) {
	case gyro.SubscribeEvent:
		return e.Channel
	case gyro.UnsubscribeEvent:
		return e.Channel
	case gyro.PublishEvent:
		return e.Channel
	}
	return ""
}

func (a *application) enter(node *gyro.Node, c *gyro.Client, call gyro.Call) *served {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.clients[c.ID()]
	if s == nil {
		s = &served{name: c.Transport().RemoteAddr, user: c.UserID(), node: node, allowed: map[string]int{}, ended: map[string]int{}, ordered: map[string]int{}}
		a.clients[c.ID()] = s
	}
	switch {
	case s.running != "":
		a.fail("%s: %s is called while %s runs", s.name, call.Handler, s.running)
	case s.disconnected:
		a.fail("%s: %s is called after Disconnected", s.name, call.Handler)
	case !s.connected && call.Handler != "Connected":
		a.fail("%s: %s is called before Connected", s.name, call.Handler)
	case s.connected && call.Handler == "Connected":
		a.fail("%s: Connected is called twice", s.name)
	}
	s.running = call.Handler
	a.event(s, call)
	return s
}

// event is what begins or ends with a handler.
func (a *application) event(s *served, call gyro.Call) {
	switch e := call.Event.(type) {
	case nil:
		s.connected = true
	case gyro.UnsubscribeEvent:
		s.ended[e.Channel]++
		a.r.lapsed(s.name, s.user, e.Channel, e.Unsubscribe.Code)
		if !e.ServerSide && s.ended[e.Channel] > s.allowed[e.Channel] {
			a.fail("%s: Unsubscribed of %s is called %d times, and Subscribe has allowed it %d times", s.name, e.Channel, s.ended[e.Channel], s.allowed[e.Channel])
		}
		a.r.orders.effect(s, e.Unsubscribe.Reason)
	case gyro.DisconnectEvent:
		s.disconnected, s.at, s.code = true, a.r.now(), e.Disconnect.Code
		a.r.orders.effect(s, e.Disconnect.Reason)
	case gyro.PublishEvent:
		a.inOrder(s, e.Data)
	case gyro.RPCEvent:
		a.inOrder(s, e.Data)
	}
}

// inOrder checks that the commands of a client reach the application in their order. Their data have a number.
func (a *application) inOrder(s *served, data []byte) {
	var v struct{ ID string }
	_ = json.Unmarshal(data, &v)
	n, _ := strconv.Atoi(v.ID[strings.IndexByte(v.ID, '-')+1:])
	if n <= s.latest {
		a.fail("%s: command %d comes after command %d", s.name, n, s.latest)
	}
	s.latest = n
}

// leave is the end of a handler, by a panic unless it has ended.
func (a *application) leave(s *served, call gyro.Call, ended bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.running = ""
	if e, is := call.Event.(gyro.SubscribeEvent); is && ended && err == nil {
		s.allowed[e.Channel]++
	}
}

// check is called when all clients and nodes have ended.
func (a *application) check() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(a.clients)) {
		s := a.clients[id]
		if s.connected && !s.disconnected {
			a.r.fail("%s: Disconnected was never called", s.name)
		}
		if code, ok := a.r.net.closed[s.name]; ok && s.connected && code != s.code {
			a.r.fail("%s: was closed with %d, and Disconnected got %d", s.name, code, s.code)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.r.began)) {
		a.told(id)
	}
}

// told checks what a client was told against the calls of handlers.
func (a *application) told(id string) {
	s := a.clients[id]
	if s == nil || !s.connected {
		a.r.fail("%s: was connected, and Connected was never called", id)
		return
	}
	for _, ch := range slices.Sorted(maps.Keys(a.r.began[id])) {
		if n := a.r.began[id][ch]; s.ended[ch] < n {
			a.r.fail("%s: was subscribed to %s %d times, and Unsubscribed was called %d times", s.name, ch, n, s.ended[ch])
		}
	}
}

// handlers of the application on a machine: they take a while, and some fail.
func (r *run) handlers(m *machine) gyro.Handlers {
	return gyro.Handlers{
		Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) { return r.connecting(m, e) },
		Connected:  func(context.Context, *gyro.Client) {},
		Subscribe: func(_ context.Context, c *gyro.Client, e gyro.SubscribeEvent) (reply gyro.SubscribeReply, err error) {
			reply.Options = r.optionsOf(c.UserID(), e.Channel)
			m.editions[e.Channel].reduce(e.Channel, &reply.Options)
			if err = r.expiring(m, c.UserID(), e.Channel, e.Token, &reply); err == nil {
				r.granting(c.ID(), e.Channel, reply.Options)
				r.lend(m, c, e.Channel, true, reply.Options.ExpireAt)
			}
			return reply, err
		},
		Unsubscribed: func(context.Context, *gyro.Client, gyro.UnsubscribeEvent) {},
		Publish: func(_ context.Context, _ *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
			o := gyro.PublishOptions{Tags: tags(string(e.Data))}
			m.editions[e.Channel].keep(e.Channel, &o)
			return gyro.PublishReply{Options: o}, nil
		},
		MapChange: func(_ context.Context, _ *gyro.Client, e gyro.MapChangeEvent) (gyro.MapChangeReply, error) {
			if kindOf(e.Channel).changes == nil {
				return gyro.MapChangeReply{}, protocol.ErrorNotAvailable
			}
			return gyro.MapChangeReply{Options: *kindOf(e.Channel).changes}, nil
		},
		Presence: func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceReply, error) {
			return gyro.PresenceReply{}, nil
		},
		PresenceStats: func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceStatsReply, error) {
			return gyro.PresenceStatsReply{}, nil
		},
		History: func(context.Context, *gyro.Client, gyro.HistoryEvent) (gyro.HistoryReply, error) {
			return gyro.HistoryReply{}, nil
		},
		RPC:     func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) { return e.Data, nil },
		Message: func(context.Context, *gyro.Client, []byte) error { return nil },
		Refresh: func(_ context.Context, c *gyro.Client, e gyro.RefreshEvent) (gyro.RefreshReply, error) {
			reply, err := r.refresh(m, c.UserID(), e)
			if err == nil {
				r.lend(m, c, "", false, reply.ExpireAt)
			}
			return reply, err
		},
		SubRefresh: func(_ context.Context, c *gyro.Client, e gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
			reply, err := r.subRefresh(m, c.UserID(), e)
			if err == nil {
				r.lend(m, c, e.Channel, false, reply.ExpireAt)
			}
			return reply, err
		},
		Survey: func(_ context.Context, e gyro.SurveyEvent) (gyro.SurveyReply, error) {
			return gyro.SurveyReply{Data: e.Data}, nil
		},
		Disconnected: func(context.Context, *gyro.Client, gyro.DisconnectEvent) {},
	}
}

// connecting gives some clients an end, and some a subscription.
func (r *run) connecting(m *machine, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
	user, end, err := read(e.Token, m.clock)
	renewal := r.renewal(user)
	if renewal == byServer || e.Name == "model" && hash("expires "+user)%4 == 0 {
		end = r.expiry(user, m.clock.now())
	}
	if err == nil {
		r.lendTo(m, e.Transport.RemoteAddr, e.ClientID, "", true, end)
	}
	return gyro.ConnectReply{
		Credentials:       &gyro.Credentials{UserID: user, ExpireAt: end},
		Subscriptions:     r.granted(user),
		ClientSideRefresh: renewal == byClient || e.Name == "model",
	}, err
}

var refusals = []error{
	protocol.ErrorInternal, protocol.ErrorInternal, protocol.ErrorTooManyRequests, protocol.ErrorTooManyRequests,
	errors.New("a fault of the application"), fmt.Errorf("wrapped: %w", protocol.ErrorTooManyRequests),
	protocol.ErrorPermissionDenied, &protocol.Error{Code: 5, Message: "no code for an application"},
	protocol.Disconnect{Code: 4000, Reason: "again"}, protocol.Disconnect{Code: 4500, Reason: "never"},
	&protocol.Disconnect{Code: 17, Reason: "no code"},
}

// ask has the application decide, after a while. It may refuse, panic, and decide otherwise the next time.
func (r *run) ask(ctx context.Context, m *machine, key string) error {
	answer := make(chan error, 1)
	link := m.link
	r.tell(m.name+" handler "+key, func() {
		kind, who, _ := strings.Cut(key, " ")
		who, _, _ = strings.Cut(who, "#")
		r.moment("handler "+strings.ToLower(kind), m, r.named(who))
		delay, err := r.decide(link.fate("handler " + key))
		r.after(delay, m.name+" handler "+key, func() {
			if err != nil {
				r.log.add(m.name, "handler %s: %v", key, err)
			}
			answer <- err
		})
	})
	select {
	case err := <-answer:
		if errors.Is(err, errPanic) {
			panic(err)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errPanic = errors.New("the handler panics")

func (r *run) decide(fate *rand.Rand) (time.Duration, error) {
	n := r.plan.Network
	chance := fate.IntN(1000)
	delay := time.Duration(fate.Int64N(int64(n.HandlerDelay) + 1))
	refusal := refusals[fate.IntN(len(refusals))]
	switch {
	case r.healed:
		return delay / 4, nil
	case chance < n.HandlerFails:
		return delay, refusal
	case chance >= 1000-n.HandlerPanics:
		return delay, errPanic
	}
	return delay, nil
}
