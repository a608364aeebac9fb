package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/internal/testkit/logtest"
)

// bubble runs a test in virtual time, with a connected client.
func bubble(t *testing.T, test func(t *testing.T, ctx context.Context, r *runner)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRunner(t, ctx)
		defer func() {
			cancel()
			r.client.Close()
		}()
		r.newClient(`{}`)
		go func() { _ = r.client.Connect(ctx) }()
		synctest.Wait()
		r.dialedWith("open")
		r.says(`{"id":1,"connect":{"client":"c1","ping":25,"pong":true}}`)
		test(t, ctx, r)
	})
}

func (r *runner) says(text string, args ...any) {
	r.t.Helper()
	synctest.Wait()
	r.server(fmt.Sprintf(text, args...))
	synctest.Wait()
}

// subscribed makes a recoverable subscription, which the server accepts.
func (r *runner) subscribed(channel string, id int) *Subscription {
	r.t.Helper()
	s, err := r.client.NewSubscription(channel, nil)
	r.must(err)
	s.Subscribe()
	r.says(`{"id":%d,"subscribe":{"recoverable":true,"positioned":true,"epoch":"e"}}`, id)
	return s
}

func (r *runner) publishes(channel string, from, to int) {
	r.t.Helper()
	for n := from; n <= to; n++ {
		r.says(`{"push":{"channel":%q,"pub":{"data":%d,"offset":%d}}}`, channel, n, n)
	}
}

func (r *runner) sent() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := strings.Join(r.left, "\n")
	r.left = nil
	return all
}

func collect(seq iter.Seq2[Publication, error]) (got *[]string, ended chan struct{}) {
	got, ended = new([]string), make(chan struct{})
	go func() {
		defer close(ended)
		for p, err := range seq {
			text := fmt.Sprint(p.Offset)
			if gap := (*GapError)(nil); errors.As(err, &gap) {
				text = fmt.Sprintf("gap %d%s-%d%s %v", gap.From.Offset, gap.From.Epoch, gap.To.Offset, gap.To.Epoch, gap.Unread)
			} else if err != nil {
				text = err.Error()
			}
			*got = append(*got, text)
		}
	}()
	return got, ended
}

// TestUnread: an iterator that is not read delays everything else for a second, once. What it cannot take is left out,
// with a gap and a line in the log, and with the state of the end.
func TestUnread(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, r *runner) {
		var log logtest.Buffer
		r.client.options.Buffer, r.client.options.Logger = 3, slog.New(slog.NewTextHandler(&log, nil))
		news := r.subscribed("news", 2)
		unread, all := news.Publications(ctx), r.client.Events(ctx, news)
		other, _ := collect(r.subscribed("other", 3).Publications(ctx))
		r.publishes("news", 1, 4) // the fourth is one more than there is room for
		began := time.Now()
		r.publishes("news", 5, 50)
		r.publishes("other", 1, 1)
		time.Sleep(grace) // in which nothing was read
		synctest.Wait()
		if got := r.conn.unread(); got > 0 || len(*other) != 1 {
			t.Errorf("%d frames are not read, %v were published in the other channel", got, *other)
		}
		r.sent()
		r.says(`{}`)
		if got := r.sent(); got != "C {}" {
			t.Errorf("the ping is answered by %q", got)
		}
		calls := make(chan error, 1)
		go func() {
			_, err := r.client.RPC(ctx, "x", nil)
			calls <- err
		}()
		synctest.Wait()
		r.publishes("news", 51, 60)
		r.says(`{"id":4,"rpc":{}}`)
		if err := <-calls; err != nil || time.Since(began) != grace {
			t.Errorf("the call ends with %v after %v", err, time.Since(began))
		}
		if text := log.String(); strings.Count(text, "nobody takes") != 2 || !strings.Contains(text, "channel=news key=Options.Buffer limit=3") {
			t.Error(text)
		}
		// It is read after all.
		got, _ := collect(unread)
		r.publishes("news", 61, 61)
		if want := "[1 2 3 4 gap 4e-60e true 61]"; fmt.Sprint(*got) != want {
			t.Errorf("%v, want %s", *got, want)
		}
		next, stop := iter.Pull(all)
		defer stop()
		for n := range 5 {
			e, _ := next()
			gap, ok := e.(GapEvent)
			if ok != (n == 4) || ok && gap.To.Offset != 61 {
				t.Errorf("%d: %+v", n, e)
			}
		}
	})
}

// TestUnreadEnd: an iterator without room has the end of its subscription, and of the client, all the same.
func TestUnreadEnd(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, r *runner) {
		r.client.options.Buffer = 1
		news, chat := r.subscribed("news", 2), r.subscribed("chat", 3)
		one, two := news.Publications(ctx), chat.Publications(ctx)
		for _, channel := range []string{"news", "chat"} {
			r.publishes(channel, 1, 3)
			time.Sleep(grace)
		}
		r.says(`{"push":{"channel":"news","unsubscribe":{"code":2000,"reason":"enough"}}}`)
		r.says(`{"push":{"disconnect":{"code":3503,"reason":"force disconnect"}}}`)
		for want, seq := range map[string]iter.Seq2[Publication, error]{
			`[1 2 gap 2e-3e true client: channel "news": 7: subscription unsubscribed: 2000 enough]`:     one,
			`[1 2 gap 2e-3e true client: channel "chat": 3: client disconnected: 3503 force disconnect]`: two,
		} {
			got, ended := collect(seq)
			<-ended
			if fmt.Sprint(*got) != want {
				t.Errorf("%v, want %s", *got, want)
			}
		}
	})
}

// TestSlow: an iterator that takes events slowly loses none: the client reads no more than it has room for, unless a
// call waits for its reply.
func TestSlow(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, r *runner) {
		r.client.options.Buffer = 3
		pubs := r.subscribed("news", 2).Publications(ctx)
		var at atomic.Uint64
		calls := make(chan error, 1)
		go func() {
			for p, err := range pubs {
				if before := at.Swap(p.Offset); err != nil || p.Offset != before+1 {
					t.Errorf("%+v %v", p, err)
				}
				if p.Offset == 30 {
					_, err := r.client.RPC(ctx, "x", nil)
					calls <- err
				}
				time.Sleep(grace - time.Millisecond)
			}
		}()
		synctest.Wait()
		for n := 1; n <= 50; n++ {
			r.server(fmt.Sprintf(`{"push":{"channel":"news","pub":{"data":%d,"offset":%d}}}`, n, n))
		}
		// Silence is no fault of the server while the client does not listen.
		for at.Load() < 30 {
			time.Sleep(grace)
			synctest.Wait()
			now := at.Load()
			if got := 50 - int(now) - r.conn.unread(); now < 30 && got > 3+4 {
				t.Fatalf("%d publications wait in the iterator at %d", got, now)
			}
		}
		began := time.Now()
		r.says(`{"id":3,"rpc":{}}`)
		if err := <-calls; err != nil || time.Since(began) > 0 {
			t.Errorf("the call ends with %v after %v", err, time.Since(began))
		}
		time.Sleep(30 * grace)
		if state, reason := r.client.State(); at.Load() != 50 || state != Connected {
			t.Error(at.Load(), state, reason)
		}
	})
}

// TestExcess: calls do not let an iterator have events without bound.
func TestExcess(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, r *runner) {
		r.client.options.Buffer = 2
		pubs := r.subscribed("news", 2).Publications(ctx)
		go func() { _, _ = r.client.RPC(ctx, "x", nil) }()
		r.publishes("news", 1, 100)
		got, _ := collect(pubs)
		synctest.Wait()
		if at := 2*reach + 1; len(*got) != at+1 || (*got)[at] != fmt.Sprintf("gap %de-100e true", at) {
			t.Error(*got)
		}
	})
}

// TestAbandoned: an iterator whose context has ended holds nothing up.
func TestAbandoned(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, r *runner) {
		r.client.options.Buffer = 2
		abandoned, leave := context.WithCancel(ctx)
		_ = r.client.Events(abandoned)
		for n := range 10 {
			r.says(`{"push":{"message":{"data":%d}}}`, n)
		}
		if got := r.conn.unread(); got != 7 {
			t.Errorf("%d frames are not read", got)
		}
		leave()
		synctest.Wait()
		if got := r.conn.unread(); got != 0 {
			t.Errorf("%d frames are not read", got)
		}
	})
}

// TestLeftOut: what stands for events is bounded, whatever they are.
func TestLeftOut(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, r *runner) {
		var left []Event
		for n := range 1000 {
			channel := fmt.Sprint("c", n)
			for _, e := range []Event{
				ConnectingEvent{}, ErrorEvent{}, ConnectedEvent{}, MessageEvent{}, SubscribedEvent{Channel: channel}, StateEvent{Channel: channel},
				GapEvent{Channel: channel, From: StreamPosition{Offset: 1}, To: StreamPosition{Offset: 2}}, JoinEvent{Channel: channel},
				LeaveEvent{Channel: channel}, PublicationEvent{Publication{Channel: channel, Offset: 3}}, UnsubscribedEvent{Channel: channel}, DisconnectedEvent{},
			} {
				left = r.client.leftOut(left, e, "")
			}
		}
		if len(left) > maxLeftOut+1 || left[0] != (GapEvent{Unread: true}) {
			t.Errorf("%d: %+v", len(left), left[0])
		}
		if e := left[1].(GapEvent); e.Channel != "c0" || e.From.Offset != 1 || e.To.Offset != 2 {
			t.Errorf("%+v", e)
		}
		if e, ok := left[len(left)-1].(DisconnectedEvent); !ok {
			t.Errorf("%+v", e)
		}
		if left := r.client.leftOut(nil, PublicationEvent{Publication{Channel: "a:b", Offset: 3}}, "a:*"); left[0] != (GapEvent{Channel: "a:*", Unread: true}) {
			t.Errorf("%+v", left)
		}
	})
}
