package client

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/gyrohq/gyro/client/internal/eventqueue"
)

type options struct {
	Token, Name, Version                               string
	Data                                               json.RawMessage
	Headers                                            map[string]string
	Timeout                                            float64
	MinReconnectDelay, MaxReconnectDelay, MaxPingDelay float64
	GetToken, GetData                                  bool
	Dictionary                                         bool
	Profile                                            string
	Transports                                         []string
	Remembered                                         struct{ Transport, Ago string }
}

func (r *runner) newClient(text string) {
	var o options
	r.must(json.Unmarshal([]byte(text), &o))
	in := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	co := Options{
		Token: o.Token, Name: o.Name, Version: o.Version, Data: o.Data, Headers: o.Headers, Timeout: in(o.Timeout),
		MinDelay: in(o.MinReconnectDelay), MaxDelay: in(o.MaxReconnectDelay), PingWait: in(o.MaxPingDelay),
		Dictionary: o.Dictionary, Profile: o.Profile,
	}
	if o.GetToken {
		co.GetToken = func(ctx context.Context) (string, error) { return ask[string](ctx, r, "getToken", nil) }
	}
	if o.GetData {
		co.GetData = func(ctx context.Context) ([]byte, error) { return ask[json.RawMessage](ctx, r, "getData", nil) }
	}
	co, err := co.withDefaults()
	r.must(err)
	dialer, err := r.over(&o)(&co)
	r.must(err)
	c := newClient(dialer, co)
	c.random = func() float64 { return r.random }
	c.now = func() time.Time { return time.Now().Round(0).Add(r.slept) }
	r.client = c
	// One queue for all, so that events stay in their order.
	r.queue = eventqueue.New("", 1<<20, eventqueue.Sources, &c.crowd, nil)
	c.queues.Add(r.queue)
	context.AfterFunc(r.ctx, r.queue.End)
	go func() {
		for e := range r.queue.Each(func() {}) {
			r.tell(e)
		}
	}()
}

func ask[T any](ctx context.Context, r *runner, name string, about map[string]any) (value T, err error) {
	if about == nil {
		about = map[string]any{}
	}
	text, _ := json.Marshal(about)
	answer := make(chan answerOf, 1)
	r.mu.Lock()
	r.calls = append(r.calls, "call "+name+" "+string(text))
	r.asked[name] = answer
	r.mu.Unlock()
	select {
	case a := <-answer:
		if a.err == nil {
			err = json.Unmarshal(a.value, &value)
		}
		return value, errors.Join(err, a.err)
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

func (r *runner) answer(name, word, text string) {
	a := answerOf{value: json.RawMessage(text)}
	if word == "fail" {
		a.err = errors.New(text)
		if text == "unauthorized" {
			a.err = ErrUnauthorized
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.asked[name]
	if c == nil {
		r.fatalf("nobody asked for %s", name)
	}
	delete(r.asked, name)
	c <- a
}

func filter(text json.RawMessage) (f *FilterNode) {
	if len(text) > 0 {
		f = new(FilterNode)
		if err := f.UnmarshalJSON(text); err != nil {
			panic(err)
		}
	}
	return f
}

func (r *runner) subscription(channel, text string) {
	var o struct {
		Token                                     string
		Data, Filter                              json.RawMessage
		Since                                     *StreamPosition
		Positioned, Recoverable, JoinLeave        bool
		Delta, Type                               string
		Limit                                     int
		GetToken, GetData, GetState, GetSignature bool
	}
	r.must(json.Unmarshal([]byte(text), &o))
	so := &SubscribeOptions{
		Token: o.Token, Data: o.Data, Since: o.Since, Positioned: o.Positioned, Recoverable: o.Recoverable, JoinLeave: o.JoinLeave,
		Delta: o.Delta != "", Filter: filter(o.Filter),
	}
	about := object{"channel": channel}
	if o.GetToken {
		so.GetToken = func(ctx context.Context, _ string) (string, error) { return ask[string](ctx, r, "getToken", about) }
	}
	if o.GetData {
		so.GetData = func(ctx context.Context, _ string) ([]byte, error) {
			return ask[json.RawMessage](ctx, r, "getData", about)
		}
	}
	if o.GetState {
		so.GetState = func(ctx context.Context, _ string) (StreamPosition, error) {
			return ask[StreamPosition](ctx, r, "getState", about)
		}
	}
	s := r.made(channel, o.Type, so, o.Limit, o.GetSignature)
	r.mu.Lock()
	r.subs[channel] = s
	r.mu.Unlock()
	s.queues.Add(r.queue)
}

func (r *runner) made(channel, kind string, so *SubscribeOptions, limit int, signs bool) *Subscription {
	r.t.Helper()
	switch kind {
	case "", "stream":
		s, err := r.client.NewSubscription(channel, so)
		r.must(err)
		return s
	case "shared_poll":
		po := &PollOptions{SubscribeOptions: *so}
		if signs {
			po.GetSignature = func(ctx context.Context, channel string, keys []string) (string, error) {
				return ask[string](ctx, r, "getSignature", object{"channel": channel, "keys": keys})
			}
		}
		p, err := r.client.NewPoll(channel, po)
		r.must(err)
		r.polls[channel] = p
		return p.Subscription
	}
	kinds := map[string]MapKind{"map": MapData, "map_clients": MapClients, "map_users": MapUsers}
	m, err := r.client.NewMap(channel, &MapOptions{SubscribeOptions: *so, Kind: kinds[kind], PageSize: limit})
	r.must(err)
	r.maps[channel] = m
	return m.Subscription
}

func (r *runner) call(text string) {
	r.t.Helper()
	name := ""
	if first, rest, found := strings.Cut(text, ": "); found && !strings.Contains(first, " ") {
		name, text = first, rest
	}
	word, rest, _ := strings.Cut(text, " ")
	ctx := r.ctx
	if name != "" {
		ctx, r.aborts[name] = context.WithCancel(r.ctx)
	}
	if r.change(ctx, word, rest) {
		return
	}
	result := r.read(ctx, word, rest)
	if result == nil {
		result = r.write(ctx, word, rest)
	}
	go func() {
		value, err := result()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.results[name] = outcomeOf{value, err}
	}()
}

// change reports whether it is a call without a result.
func (r *runner) change(ctx context.Context, word, rest string) bool {
	r.t.Helper()
	channel, argument, _ := strings.Cut(rest, " ")
	c, s := r.client, r.subs[channel]
	switch word {
	case "connect":
		go func() { _ = c.Connect(ctx) }() // the events tell
	case "disconnect":
		c.Disconnect()
	case "close":
		c.Close()
	case "reconnect":
		c.Reconnect()
	case "subscribe":
		s.Subscribe()
	case "unsubscribe":
		s.Unsubscribe()
	case "remove":
		s.Close()
	case "filter":
		s.SetFilter(filter([]byte(argument)))
	case "abort":
		r.aborts[channel]()
	case "track":
		var o struct {
			Keys      []string
			Signature string
		}
		r.must(json.Unmarshal([]byte(argument), &o))
		r.must(r.polls[channel].Track(o.Keys, o.Signature))
	case "untrack":
		var keys []string
		r.must(json.Unmarshal([]byte(argument), &keys))
		r.polls[channel].Untrack(keys)
	default:
		return false
	}
	return true
}

func (r *runner) write(ctx context.Context, word, rest string) func() (any, error) {
	r.t.Helper()
	channel, argument, _ := strings.Cut(rest, " ")
	c, data := r.client, []byte(argument)
	switch word {
	case "set":
		key, value, _ := strings.Cut(argument, " ")
		return func() (any, error) { return object{}, r.maps[channel].Set(ctx, key, []byte(value)) }
	case "delete":
		return func() (any, error) { return object{}, r.maps[channel].Delete(ctx, argument) }
	case "ready":
		return func() (any, error) { return object{}, c.Ready(ctx) }
	case "publish":
		return func() (any, error) { return object{}, c.Publish(ctx, channel, data) }
	case "sub-publish":
		s := r.subs[channel]
		return func() (any, error) { return object{}, s.Publish(ctx, data) }
	case "send":
		return func() (any, error) { return object{}, c.Send(ctx, []byte(rest)) }
	}
	r.fatalf("unknown call")
	return nil
}

// read returns nil if it is no call that returns something.
func (r *runner) read(ctx context.Context, word, rest string) func() (any, error) {
	r.t.Helper()
	channel, argument, _ := strings.Cut(rest, " ")
	c, data := r.client, []byte(argument)
	switch word {
	case "rpc":
		return func() (any, error) {
			data, err := c.RPC(ctx, channel, data)
			return object{"data": raw(data)}, err
		}
	case "presence":
		return func() (any, error) {
			list, err := c.Presence(ctx, channel)
			clients := object{}
			for id, i := range list {
				clients[id] = info(i)
			}
			return object{"clients": clients}, err
		}
	case "stats":
		return func() (any, error) {
			stats, err := c.PresenceStats(ctx, channel)
			return object{"clients": stats.Clients, "users": stats.Users}, err
		}
	case "history":
		var o HistoryOptions
		r.must(json.Unmarshal(data, &o))
		return func() (any, error) {
			h, err := c.History(ctx, channel, o)
			list := []any{}
			for _, p := range h.Publications {
				list = append(list, object{"data": raw(p.Data), "offset": p.Offset, "info": info(p.Info), "tags": p.Tags})
			}
			return object{"publications": list, "offset": h.Top.Offset, "epoch": h.Top.Epoch}, err
		}
	}
	return nil
}
