package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/client/internal/feed"
	"github.com/gyrohq/gyro/internal/socket"
)

// TestFixtures has the conversations that all SDKs have (clients/fixtures/README.md).
func TestFixtures(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../clients/fixtures/*.txt")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { run(t, string(text)) })
		})
	}
}

// runner plays server, application and clock.
type runner struct {
	t      *testing.T
	line   string
	client *Client
	subs   map[string]*Subscription
	maps   map[string]*Map
	polls  map[string]*Poll
	random float64
	slept  time.Duration
	feed   *feed.Feed[Event]
	ctx    context.Context

	mu      sync.Mutex
	left    []string // what left the client
	calls   []string // of callbacks, which run on goroutines of their own, so their order beside what left has no meaning
	told    []string // what the application was told
	results map[string]outcomeOf
	aborts  map[string]context.CancelFunc
	dialed  chan error // answers the dial under way
	conn    *fakeConn
	asked   map[string]chan answerOf
}

type outcomeOf struct {
	value any
	err   error
}

type answerOf struct {
	value json.RawMessage
	err   error
}

func newRunner(t *testing.T, ctx context.Context) *runner {
	return &runner{
		t: t, subs: make(map[string]*Subscription), maps: make(map[string]*Map), polls: make(map[string]*Poll), random: 0.5, ctx: ctx,
		results: make(map[string]outcomeOf), aborts: make(map[string]context.CancelFunc), asked: make(map[string]chan answerOf),
	}
}

func run(t *testing.T, text string) {
	ctx, cancel := context.WithCancel(t.Context())
	r := newRunner(t, ctx)
	defer func() {
		cancel()
		r.client.Close()
	}()
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r.line = fmt.Sprintf("line %d: %s", n, line)
		r.do(line)
		synctest.Wait()
	}
	r.settled()
}

func (r *runner) fatalf(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s\n%s", r.line, fmt.Sprintf(format, args...))
}

// settled checks that all that happened was expected.
func (r *runner) settled() {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if all := slices.Concat(r.left, r.calls, r.told); len(all) > 0 {
		r.fatalf("nobody expected\n%s", strings.Join(all, "\n"))
	}
}

func (r *runner) do(line string) {
	r.t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "dial", "C":
		r.expect(&r.left, line)
		return
	case "call":
		r.expect(&r.calls, line)
		return
	case "event":
		r.expect(&r.told, line)
		return
	case "result", "error":
		r.outcome(word, rest)
		return
	}
	r.settled()
	switch word {
	case "client":
		r.newClient(rest)
	case "random":
		value, err := strconv.ParseFloat(rest, 64)
		r.must(err)
		r.random = value
	case "subscription":
		channel, options, _ := strings.Cut(rest, " ")
		r.subscription(channel, options)
	case "do":
		r.call(rest)
	case "return", "fail":
		name, value, _ := strings.Cut(rest, " ")
		r.answer(name, word, value)
	case "open", "refuse":
		r.dialedWith(word)
	case "S":
		r.server(rest)
	case "wait":
		d, err := time.ParseDuration(rest)
		r.must(err)
		time.Sleep(d)
	case "network":
		r.client.NetworkChanged(rest == "online")
	case "wake":
		d, err := time.ParseDuration(rest)
		r.must(err)
		r.client.mu.Lock()
		r.slept += d
		r.client.mu.Unlock()
		r.client.Woke()
	default:
		r.fatalf("unknown line")
	}
}

func (r *runner) must(err error) {
	r.t.Helper()
	if err != nil {
		r.fatalf("%v", err)
	}
}

// options of the client in a fixture.
type options struct {
	Token, Name, Version                               string
	Data                                               json.RawMessage
	Headers                                            map[string]string
	Timeout                                            float64
	MinReconnectDelay, MaxReconnectDelay, MaxPingDelay float64
	GetToken, GetData                                  bool
}

func (r *runner) newClient(text string) {
	var o options
	r.must(json.Unmarshal([]byte(text), &o))
	in := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	co := Options{
		Token: o.Token, Name: o.Name, Version: o.Version, Data: o.Data, Headers: o.Headers, Timeout: in(o.Timeout),
		MinDelay: in(o.MinReconnectDelay), MaxDelay: in(o.MaxReconnectDelay), PingWait: in(o.MaxPingDelay),
	}
	if o.GetToken {
		co.GetToken = func(ctx context.Context) (string, error) { return ask[string](ctx, r, "getToken", nil) }
	}
	if o.GetData {
		co.GetData = func(ctx context.Context) ([]byte, error) { return ask[json.RawMessage](ctx, r, "getData", nil) }
	}
	co, err := co.withDefaults()
	r.must(err)
	c := newClient(Dialer{Name: func() string { return "fixture" }, Dial: r.dial}, co)
	c.random = func() float64 { return r.random }
	c.now = func() time.Time { return time.Now().Round(0).Add(r.slept) }
	r.client = c
	// One feed for all, so that events stay in their order.
	r.feed = feed.New(1<<20, true, &c.crowd)
	c.feeds.Add(r.feed)
	context.AfterFunc(r.ctx, r.feed.End)
	go func() {
		for e := range r.feed.Each(func() {}) {
			r.tell(e)
		}
	}()
}

// ask calls a callback of the application.
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
		if a.err = errors.New(text); text == "unauthorized" {
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

// dial plays the network.
func (r *runner) dial(ctx context.Context) (Conn, error) {
	answer := make(chan error, 1)
	r.mu.Lock()
	r.left = append(r.left, "dial")
	r.dialed = answer
	r.mu.Unlock()
	select {
	case err := <-answer:
		if err != nil {
			return nil, err
		}
		c := &fakeConn{r: r, frames: make(chan string, 100), ended: make(chan struct{})}
		r.mu.Lock()
		r.conn = c
		r.mu.Unlock()
		return c, nil
	case <-ctx.Done():
		r.leave("C close")
		return nil, ctx.Err()
	}
}

func (r *runner) dialedWith(word string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dialed == nil {
		r.fatalf("nobody dials")
	}
	var err error
	if word == "refuse" {
		err = errors.New("refused")
	}
	r.dialed <- err
	r.dialed = nil
}

func (r *runner) leave(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = append(r.left, line)
}

// fakeConn is a connection to the runner.
type fakeConn struct {
	r      *runner
	frames chan string
	once   sync.Once
	ended  chan struct{}
	err    error // with which the server has ended it
}

func (c *fakeConn) Write(message []byte) error {
	select {
	case <-c.ended:
		return io.ErrClosedPipe
	default:
	}
	for line := range strings.Lines(string(message)) {
		c.r.leave("C " + strings.TrimSuffix(line, "\n"))
	}
	return nil
}

func (c *fakeConn) Read(handle func([]byte) error) error {
	for {
		select {
		case frame := <-c.frames:
			if err := handle([]byte(frame)); err != nil {
				return err
			}
		case <-c.ended:
			if c.err != nil {
				return c.err
			}
			return io.ErrClosedPipe
		}
	}
}

func (c *fakeConn) Close(uint16, string) { c.Cut() }

func (c *fakeConn) Cut() {
	c.once.Do(func() {
		c.r.leave("C close")
		close(c.ended)
	})
}

// end is the end of the connection by the server, or the network.
func (c *fakeConn) end(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.ended)
	})
}

func (r *runner) server(text string) {
	r.mu.Lock()
	c := r.conn
	r.mu.Unlock()
	if c == nil {
		r.fatalf("there is no connection")
	}
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "raw":
		c.frames <- rest
	case "drop":
		c.end(io.ErrUnexpectedEOF)
	case "close":
		code, reason, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(code, 10, 16)
		r.must(err)
		c.end(&socket.CloseError{Code: uint32(n), Reason: reason})
	default:
		c.frames <- strings.ReplaceAll(text, " | ", "\n")
	}
}

// expect takes the first of a queue, which has to be what a line says.
func (r *runner) expect(queue *[]string, line string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(*queue) == 0 {
		r.fatalf("it does not happen; nobody expected\n%s", strings.Join(slices.Concat(r.left, r.calls, r.told), "\n"))
	}
	got := (*queue)[0]
	*queue = (*queue)[1:]
	exact := strings.HasPrefix(line, "C ")
	if !matches(got, line, exact) {
		r.fatalf("got  %s\nthen %s", got, strings.Join(*queue, "\n     "))
	}
}

// matches compares words, and then JSON.
func matches(got, want string, exact bool) bool {
	wantWords, wantJSON := apart(want)
	gotWords, gotJSON := apart(got)
	if wantWords != gotWords {
		return false
	}
	var a, b any
	if wantJSON == "" {
		return true
	}
	if json.Unmarshal([]byte(gotJSON), &a) != nil || json.Unmarshal([]byte(wantJSON), &b) != nil {
		return false
	}
	if exact {
		return reflect.DeepEqual(a, b)
	}
	return contains(a, b)
}

func apart(line string) (words, text string) {
	if at := strings.Index(line, "{"); at >= 0 {
		return strings.TrimSpace(line[:at]), line[at:]
	}
	return line, ""
}

// contains reports whether a value has all that another one has.
func contains(got, want any) bool {
	switch want := want.(type) {
	case nil:
		return got == nil || reflect.ValueOf(got).IsZero() || isEmpty(got)
	case map[string]any:
		in, ok := got.(map[string]any)
		if !ok && len(want) > 0 {
			return false
		}
		for key, value := range want {
			if !contains(in[key], value) {
				return false
			}
		}
		return true
	case []any:
		in, ok := got.([]any)
		if !ok || len(in) != len(want) {
			return false
		}
		for i := range want {
			if !contains(in[i], want[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(got, want)
}

func isEmpty(v any) bool {
	m, ok := v.(map[string]any)
	return ok && len(m) == 0
}

type object = map[string]any

// tell notes an event.
func (r *runner) tell(e Event) {
	name, keys := describe(e)
	text, err := json.Marshal(keys)
	if err != nil {
		panic(err)
	}
	line := "event "
	r.mu.Lock()
	defer r.mu.Unlock()
	if channel, _ := keys["channel"].(string); r.subs[channel] != nil {
		line += channel + " "
	}
	r.told = append(r.told, line+name+" "+string(text))
}

func position(p StreamPosition) object { return object{"offset": p.Offset, "epoch": p.Epoch} }

func describe(e Event) (name string, keys object) {
	switch e := e.(type) {
	case ConnectingEvent:
		return "connecting", object{"code": e.Reason.Code, "reason": e.Reason.Text}
	case ConnectedEvent:
		return "connected", object{"client": e.Client, "data": raw(e.Data)}
	case DisconnectedEvent:
		return "disconnected", object{"code": e.Reason.Code, "reason": e.Reason.Text}
	case ErrorEvent:
		return "error", object{"channel": e.Channel, "code": e.Code, "message": e.Message}
	case MessageEvent:
		return "message", object{"data": raw(e.Data)}
	case SubscribingEvent:
		return "subscribing", object{"channel": e.Channel, "code": e.Reason.Code, "reason": e.Reason.Text}
	case UnsubscribedEvent:
		return "unsubscribed", object{"channel": e.Channel, "code": e.Reason.Code, "reason": e.Reason.Text}
	case SubscribedEvent:
		return "subscribed", object{
			"channel": e.Channel, "wasRecovering": e.WasRecovering, "recovered": e.Recovered, "recoverable": e.Recoverable,
			"positioned": e.Positioned, "position": position(e.Position), "data": raw(e.Data),
		}
	case GapEvent:
		return "gap", object{"channel": e.Channel, "from": position(e.From), "to": position(e.To)}
	case PublicationEvent:
		return "publication", publication(e.Publication)
	case StateEvent:
		list := []any{}
		for _, p := range e.Entries {
			list = append(list, publication(p))
		}
		return "state", object{"channel": e.Channel, "entries": list}
	case JoinEvent:
		return "join", object{"channel": e.Channel, "info": info(&e.Info)}
	case LeaveEvent:
		return "leave", object{"channel": e.Channel, "info": info(&e.Info)}
	}
	return fmt.Sprintf("%T", e), nil
}

func publication(p Publication) object {
	return object{
		"channel": p.Channel, "data": raw(p.Data), "offset": p.Offset, "tags": p.Tags, "info": info(p.Info),
		"key": p.Key, "removed": p.Removed, "score": p.Score, "version": p.Version,
	}
}

func raw(data []byte) any {
	if len(data) == 0 {
		return nil
	}
	return json.RawMessage(data)
}

func info(i *ClientInfo) any {
	if i == nil {
		return nil
	}
	return object{"user": i.User, "client": i.Client, "connInfo": raw(i.ConnInfo), "chanInfo": raw(i.ChanInfo)}
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
	s.feeds.Add(r.feed)
}

// made makes a subscription of a type.
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

// call plays the application.
func (r *runner) call(text string) {
	r.t.Helper()
	name := ""
	if first, rest, found := strings.Cut(text, ": "); found && !strings.Contains(first, " ") {
		name, text = first, rest
	}
	word, rest, _ := strings.Cut(text, " ")
	channel, argument, _ := strings.Cut(rest, " ")
	ctx := r.ctx
	if name != "" {
		ctx, r.aborts[name] = context.WithCancel(r.ctx)
	}
	c, s, data := r.client, r.subs[channel], []byte(argument)
	var result func() (any, error)
	switch word {
	case "connect":
		go func() { _ = c.Connect(ctx) }() // the events tell
	case "disconnect":
		c.Disconnect()
	case "close":
		c.Close()
	case "subscribe":
		s.Subscribe()
	case "unsubscribe":
		s.Unsubscribe()
	case "remove":
		s.Close()
	case "filter":
		s.SetFilter(filter(data))
	case "abort":
		r.aborts[channel]()
	case "set":
		key, value, _ := strings.Cut(argument, " ")
		result = func() (any, error) { return object{}, r.maps[channel].Set(ctx, key, []byte(value)) }
	case "delete":
		result = func() (any, error) { return object{}, r.maps[channel].Delete(ctx, argument) }
	case "track":
		var o struct {
			Keys      []string
			Signature string
		}
		r.must(json.Unmarshal(data, &o))
		r.must(r.polls[channel].Track(o.Keys, o.Signature))
	case "untrack":
		var keys []string
		r.must(json.Unmarshal(data, &keys))
		r.polls[channel].Untrack(keys)
	case "ready":
		result = func() (any, error) { return object{}, c.Ready(ctx) }
	case "publish":
		result = func() (any, error) { return object{}, c.Publish(ctx, channel, data) }
	case "sub-publish":
		result = func() (any, error) { return object{}, s.Publish(ctx, data) }
	case "send":
		result = func() (any, error) { return object{}, c.Send(ctx, []byte(rest)) }
	case "rpc":
		result = func() (any, error) {
			data, err := c.RPC(ctx, channel, data)
			return object{"data": raw(data)}, err
		}
	case "presence":
		result = func() (any, error) {
			list, err := c.Presence(ctx, channel)
			clients := object{}
			for id, i := range list {
				clients[id] = info(i)
			}
			return object{"clients": clients}, err
		}
	case "stats":
		result = func() (any, error) {
			stats, err := c.PresenceStats(ctx, channel)
			return object{"clients": stats.Clients, "users": stats.Users}, err
		}
	case "history":
		var o HistoryOptions
		r.must(json.Unmarshal(data, &o))
		result = func() (any, error) {
			h, err := c.History(ctx, channel, o)
			list := []any{}
			for _, p := range h.Publications {
				list = append(list, object{"data": raw(p.Data), "offset": p.Offset, "info": info(p.Info), "tags": p.Tags})
			}
			return object{"publications": list, "offset": h.Top.Offset, "epoch": h.Top.Epoch}, err
		}
	default:
		r.fatalf("unknown call")
	}
	if result != nil {
		go func() {
			value, err := result()
			r.mu.Lock()
			defer r.mu.Unlock()
			r.results[name] = outcomeOf{value, err}
		}()
	}
}

// outcome expects that of a call.
func (r *runner) outcome(word, text string) {
	r.t.Helper()
	synctest.Wait()
	name, rest, _ := strings.Cut(text, " ")
	r.mu.Lock()
	defer r.mu.Unlock()
	got, ok := r.results[name]
	if !ok {
		r.fatalf("the call has not returned")
	}
	delete(r.results, name)
	if word == "result" {
		have, err := json.Marshal(got.value)
		if got.err != nil || err != nil || !matches("x "+string(have), "x "+rest, false) {
			r.fatalf("got %s %v", have, got.err)
		}
		return
	}
	var e *Error
	if rest == "" && got.err != nil {
		return
	}
	code, message, _ := strings.Cut(rest, " ")
	if !errors.As(got.err, &e) || code != "" && strconv.Itoa(int(e.Code)) != code || message != "" && !bytes.Contains([]byte(e.Message), []byte(message)) {
		r.fatalf("got %v", got.err)
	}
}
