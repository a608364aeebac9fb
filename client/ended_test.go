package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// endings are ways in which a client is disconnected for good, with the reason.
var endings = map[string]struct {
	do  func(r *runner)
	why Reason
}{
	"server's close": {func(r *runner) { r.says(`close 3503 force disconnect`) }, Reason{3503, "force disconnect"}},
	"server's push":  {func(r *runner) { r.says(`{"push":{"disconnect":{"code":3500,"reason":"invalid token"}}}`) }, Reason{3500, "invalid token"}},
	"expired token": {func(r *runner) {
		r.says(`drop`)
		time.Sleep(time.Second)
		synctest.Wait()
		r.dialedWith("open")
		r.says(`{"id":%d,"error":{"code":109,"message":"token expired"}}`, r.hello())
	}, Unauthorized},
	"Disconnect":  {func(r *runner) { r.client.Disconnect() }, DisconnectCalled},
	"bad message": {func(r *runner) { r.says(`raw {`) }, BadProtocol},
}

// TestDisconnected: when the client is disconnected for good, iterators and waits of subscriptions end with the reason,
// also those that begin then, until the program connects again.
func TestDisconnected(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, ctx context.Context, r *runner) {
				w := waitersOf(t, ctx, r)
				early := w.news.Publications(ctx) // it is not read yet
				end.do(r)
				w.expect(end.why)
				got, ended := collect(early)
				<-ended
				if want := fmt.Sprintf("client: channel \"news\": 3: client disconnected: %v", end.why); len(*got) != 1 || (*got)[0] != want {
					t.Errorf("%q", *got)
				}
				w.begin()
				w.expect(end.why)
				w.goesOn()
			})
		})
	}
}

// waiters wait for all that a subscription can give.
type waiters struct {
	t           *testing.T
	ctx         context.Context
	r           *runner
	news, chat  *Subscription
	board       *Map
	prices      *Poll
	outcomes    chan error
	count       int
	whole, last []Event // of the iterators that outlive it
}

func waitersOf(t *testing.T, ctx context.Context, r *runner) *waiters {
	w := &waiters{t: t, ctx: ctx, r: r, news: r.subscribed("news", 2), outcomes: make(chan error, 20)}
	var err error
	w.chat, err = r.client.NewSubscription("chat", nil)
	r.must(err)
	w.board, err = r.client.NewMap("board", nil)
	r.must(err)
	w.prices, err = r.client.NewPoll("prices", nil)
	r.must(err)
	for _, s := range []*Subscription{w.chat, w.board.Subscription, w.prices.Subscription} {
		s.Subscribe() // which the server does not answer
	}
	for events, to := range map[*[]Event]func(func(Event) bool){
		&w.whole: r.client.Events(ctx, w.news), &w.last: w.news.EventsUntilClosed(ctx),
	} {
		go func() {
			for e := range to {
				*events = append(*events, e)
			}
		}()
	}
	w.begin()
	synctest.Wait()
	if len(w.outcomes) > 0 {
		t.Fatal(<-w.outcomes)
	}
	return w
}

// hello is the ID of the last connect command, which the commands of the four subscriptions follow.
func (r *runner) hello() uint32 {
	synctest.Wait()
	return r.client.lastID - 4
}

func (w *waiters) begin() {
	w.count = 0
	wait := func(f func() error) {
		w.count++
		go func() { w.outcomes <- f() }()
	}
	wait(func() (last error) {
		for _, err := range w.news.Publications(w.ctx) {
			last = err
		}
		return last
	})
	wait(func() (last error) {
		for _, err := range ChannelOf[int](w.chat).Messages(w.ctx) {
			last = err
		}
		return last
	})
	for _, s := range []*Subscription{w.news, w.chat, w.board.Subscription, w.prices.Subscription} {
		wait(func() error {
			var last Event
			for e := range s.Events(w.ctx) {
				last = e
			}
			if e, ok := last.(DisconnectedEvent); ok {
				return s.ended(ErrDisconnected, e.Reason)
			}
			return fmt.Errorf("the last event is %+v", last)
		})
	}
	for _, s := range []*Subscription{w.chat, w.board.Subscription, w.prices.Subscription} {
		wait(func() error { return s.Ready(w.ctx) })
	}
}

func (w *waiters) expect(why Reason) {
	w.t.Helper()
	synctest.Wait()
	for range w.count {
		select {
		case err := <-w.outcomes:
			if reason := (Reason{}); !errors.Is(err, ErrDisconnected) || !errors.As(err, &reason) || reason != why {
				w.t.Errorf("%v, want %v", err, why)
			}
		default:
			w.t.Fatal("something waits for ever")
		}
	}
	for _, err := range []error{
		w.chat.Publish(w.ctx, nil), w.news.Ready(w.ctx), w.board.Set(w.ctx, "k", []byte(`1`)), w.r.client.Ready(w.ctx), w.r.client.Send(w.ctx, nil),
	} {
		if reason := (Reason{}); !errors.Is(err, ErrDisconnected) || !errors.As(err, &reason) || reason != why {
			w.t.Errorf("%v, want %v", err, why)
		}
	}
}

// goesOn connects again: the subscriptions continue from their positions, and iterators that were made before have all.
func (w *waiters) goesOn() {
	w.t.Helper()
	w.r.sent()
	pubs := w.news.Publications(w.ctx)
	go func() { _ = w.r.client.Connect(w.ctx) }()
	synctest.Wait()
	w.r.dialedWith("open")
	synctest.Wait()
	id := w.r.hello()
	w.r.says(`{"id":%d,"connect":{"client":"c2"}} | {"id":%d,"subscribe":{"recoverable":true,"positioned":true,"epoch":"e",`+
		`"was_recovering":true,"recovered":true,"publications":[{"data":1,"offset":1}]}}`, id, id+1)
	got, _ := collect(pubs)
	synctest.Wait()
	if len(*got) != 1 || (*got)[0] != "1" {
		w.t.Errorf("%q", *got)
	}
	if e, ok := w.last[len(w.last)-1].(PublicationEvent); !ok || e.Offset != 1 {
		w.t.Errorf("%+v", w.last)
	}
	gone := 0
	for _, e := range w.whole {
		if _, ok := e.(DisconnectedEvent); ok {
			gone++
		}
	}
	if e, ok := w.whole[len(w.whole)-1].(PublicationEvent); !ok || e.Offset != 1 || gone != 1 {
		w.t.Errorf("%+v", w.whole)
	}
}

// TestBeforeConnect: iterators that begin before the first Connect wait for it.
func TestBeforeConnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newRunner(t, ctx)
		r.newClient(`{}`)
		defer r.client.Close()
		s, err := r.client.NewSubscription("news", nil)
		r.must(err)
		got, ended := collect(s.Publications(ctx))
		s.Subscribe()
		if err := s.Ready(ctx); !errors.Is(err, ErrDisconnected) {
			t.Error(err)
		}
		go func() { _ = r.client.Connect(ctx) }()
		synctest.Wait()
		r.dialedWith("open")
		r.says(`{"id":1,"connect":{"client":"c1"}} | {"id":2,"subscribe":{"publications":[{"data":1,"offset":1}]}}`)
		if len(*got) != 1 {
			t.Error(*got)
		}
		r.client.Close()
		<-ended
		if len(*got) != 1 {
			t.Error(*got)
		}
	})
}

// TestReconnect: the client tells when it tries again, and does so at once if it is asked to.
func TestReconnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newRunner(t, ctx)
		r.newClient(`{}`)
		c := r.client
		defer c.Close()
		events := c.Events(ctx)
		expect := func(in time.Duration, what string) {
			t.Helper()
			synctest.Wait()
			next, at := c.NextAttempt(), time.Now().Add(in).Round(0)
			if in == 0 {
				at = time.Time{}
			}
			if got := r.sent(); !next.Equal(at) || got != what {
				t.Errorf("%q; the next attempt is at %v, want %q and %v", got, next, what, at)
			}
		}
		c.Reconnect()
		expect(0, "")
		go func() { _ = c.Connect(ctx) }()
		expect(0, "dial")
		r.dialedWith("refuse")
		expect(750*time.Millisecond, "")
		c.Reconnect()
		expect(0, "dial")
		c.Reconnect() // an attempt is under way
		r.dialedWith("refuse")
		expect(time.Second, "")
		time.Sleep(time.Second - 1)
		expect(1, "")
		time.Sleep(time.Nanosecond)
		expect(0, "dial")
		r.dialedWith("open")
		r.says(`{"id":1,"connect":{"client":"c1"}}`)
		expect(0, `C {"id":1,"connect":{}}`)
		c.Reconnect()
		expect(0, "")
		time.Sleep(lasting)
		r.says("drop")
		expect(750*time.Millisecond, "")
		c.Disconnect()
		c.Reconnect()
		time.Sleep(time.Minute)
		expect(0, "")
		var told []string
		for e := range events {
			switch e := e.(type) {
			case ConnectingEvent:
				told = append(told, fmt.Sprint("connecting ", !e.NextAttempt.IsZero(), " ", e.Err))
			case ErrorEvent:
				told = append(told, fmt.Sprint("error ", !e.NextAttempt.IsZero(), " ", e.Err))
			case DisconnectedEvent:
				cancel()
			}
		}
		if got, want := fmt.Sprintf("%q", told), `["connecting false <nil>" "error true 2: transport closed: refused" "error true 2: transport closed: refused" "connecting true unexpected EOF"]`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestReadyTells: waits that their context ends tell of the last attempt, although it failed while they waited.
func TestReadyTells(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, r *runner) {
		s, err := r.client.NewSubscription("news", nil)
		r.must(err)
		s.Subscribe()
		outcomes := make(chan error, 2)
		begin := func(ready ...func(context.Context) error) {
			for _, f := range ready {
				go func() {
					ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
					defer cancel()
					outcomes <- f(ctx)
				}()
			}
			synctest.Wait()
		}
		expect := func(code uint32, text string) {
			t.Helper()
			err := <-outcomes
			if e := (*Error)(nil); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.Code != code || !strings.Contains(err.Error(), text) {
				t.Error(err)
			}
		}
		begin(s.Ready)
		r.says(`{"id":2,"error":{"code":100,"message":"internal server error","temporary":true}}`)
		expect(100, "the last attempt to subscribe: 100: internal")
		r.says("drop")
		begin(s.Ready, r.client.Ready)
		time.Sleep(time.Second)
		synctest.Wait()
		r.dialedWith("refuse")
		expect(2, "the last attempt to connect: 2: transport closed: refused")
		expect(2, "the last attempt to connect: 2: transport closed: refused")
	})
}
