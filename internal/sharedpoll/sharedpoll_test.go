package sharedpoll

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// world is a table with an application that the test plays, and loops that note what they get.
type world struct {
	t     *testing.T
	table *Table
	opts  channel.SharedPoll
	start time.Time

	mu     sync.Mutex
	calls  []string
	posts  []string
	events []observe.Polled
	log    strings.Builder
	// answer is what the application answers.
	answer func(keys []channel.PolledKey) (channel.PollAnswer, error)
}

func newWorld(t *testing.T, opts channel.SharedPoll) *world {
	w := &world{t: t, opts: opts, start: time.Now()}
	w.says(0)
	w.opts.Poll = func(_ context.Context, ch string, keys []channel.PolledKey) (channel.PollAnswer, error) {
		w.mu.Lock()
		var list []string
		for _, k := range keys {
			list = append(list, fmt.Sprintf("%s:%d", k.Key, k.Version))
		}
		slices.Sort(list)
		w.calls = append(w.calls, fmt.Sprintf("%v %s", w.now(), strings.Join(list, " ")))
		answer := w.answer
		w.mu.Unlock()
		return answer(keys)
	}
	w.table = New(Config{
		Loops: 3, Concurrency: 2, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Check: func(_ string, data []byte) (bool, error) {
			if string(data) == "bad" {
				return false, errors.New("is not JSON")
			}
			return true, nil
		},
		Post: func(loop int, m *hub.Message) {
			w.mu.Lock()
			defer w.mu.Unlock()
			text := fmt.Sprintf("%d: ", loop)
			switch {
			case m.Kind == hub.KindCheck:
				text += "reset"
			case m.Pub.Removed:
				text += m.Pub.Key + " removed"
			default:
				text += fmt.Sprintf("%s=%s@%d", m.Pub.Key, m.Pub.Data, m.Pub.Version)
				if m.Prev != nil {
					text += fmt.Sprintf(" after %s@%d", m.Prev.Data, m.Prev.Version)
				}
			}
			w.posts = append(w.posts, text)
		},
		Polled:   func(p *observe.Polled) { w.mu.Lock(); defer w.mu.Unlock(); w.events = append(w.events, *p) },
		Panicked: func(reason any, _ []byte) { fmt.Fprintln(&w.log, reason) },
	})
	t.Cleanup(w.table.Close)
	return w
}

// does sets what the application does from now on.
func (w *world) does(answer func(keys []channel.PolledKey) (channel.PollAnswer, error)) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// says has the application answer with values after a time.
func (w *world) says(after time.Duration, list ...string) {
	a := values(list...)
	w.does(func([]channel.PolledKey) (channel.PollAnswer, error) { time.Sleep(after); return a, nil })
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// values answers with KEY=DATA@VERSION.
func values(list ...string) channel.PollAnswer {
	var a channel.PollAnswer
	for _, text := range list {
		v := channel.KeyValue{}
		rest, version, _ := strings.Cut(text, "@")
		_, _ = fmt.Sscan(version, &v.Version)
		key, data, has := strings.Cut(rest, "=")
		v.Key, v.Data, v.Removed = key, []byte(data), !has
		a.Values = append(a.Values, v)
	}
	return a
}

// took returns what was noted in a list since the last time.
func (w *world) took(list *[]string) string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := strings.Join(*list, ", ")
	*list = nil
	return got
}

func (w *world) want(what string, list *[]string, want string) {
	w.t.Helper()
	if got := w.took(list); got != want {
		w.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// track begins to track keys on a loop, and returns the values that are there at once.
func track(c *Channel, loop int, version uint64, keys ...string) string {
	var wants []want
	for _, key := range keys {
		wants = append(wants, want{Key: key, Version: version, New: true})
	}
	c.Track(loop, wants)
	var got []string
	for _, want := range wants {
		if v := want.Value; v != nil {
			got = append(got, fmt.Sprintf("%s=%s@%d", v.Key, v.Data, v.Version))
		}
	}
	return strings.Join(got, " ")
}

// The calls of a cycle are spread over the interval, each key once; nobody asks for keys that nobody tracks.
func TestCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, Interval: 9 * time.Second, BatchSize: 2})
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 1, "a", "b", "c", "d", "e") // with versions, so that nothing is urgent
		w.want("before", &w.calls, "")
		time.Sleep(9 * time.Second)
		w.want("first call", &w.calls, "9s a:0 b:0")
		time.Sleep(3 * time.Second)
		w.want("second call", &w.calls, "12s c:0 d:0")
		c.Untrack(0, "e")
		time.Sleep(3 * time.Second)
		w.want("third call, of a key that has gone", &w.calls, "")
		time.Sleep(3 * time.Second)
		w.want("next cycle", &w.calls, "18s a:0 b:0")
		for _, key := range []string{"a", "b", "c", "d"} {
			c.Untrack(0, key)
		}
		time.Sleep(time.Minute)
		w.want("nobody tracks anything", &w.calls, "")
	})
}

// New keys are asked for at once; what comes while two such calls are under way gathers for the next one.
func TestUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Interval: time.Hour, BatchSize: 3})
		w.says(time.Second)
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 0, "a")
		synctest.Wait()
		track(c, 1, 0, "b")
		synctest.Wait()
		track(c, 0, 0, "c")
		track(c, 0, 0, "d")
		w.want("at once", &w.calls, "0s a:0, 0s b:0")
		time.Sleep(time.Second)
		w.want("then", &w.calls, "1s c:0 d:0")
	})
}

// Enough keys for a whole call do not wait for the two calls that are under way.
func TestUrgentBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Interval: time.Hour, BatchSize: 2})
		w.table.slots = make(chan struct{}, 9)
		w.says(time.Second)
		c := w.table.Acquire("x", &w.opts)
		for _, key := range []string{"a", "b"} {
			track(c, 0, 0, key)
			synctest.Wait()
		}
		w.took(&w.calls)
		track(c, 0, 0, "c")
		w.want("one key", &w.calls, "")
		track(c, 0, 0, "d")
		w.want("two keys", &w.calls, "0s c:0 d:0")
	})
}

// The options of the newest subscription count.
func TestOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, Interval: time.Hour})
		c := w.table.Acquire("x", &w.opts)
		opts := w.opts
		opts.Interval, opts.BatchSize = time.Second, 1
		w.table.Acquire("x", &opts)
		track(c, 0, 1, "a", "b")
		time.Sleep(1500 * time.Millisecond)
		w.want("asked", &w.calls, "1s a:0, 1.5s b:0")
	})
}

// A client that needs a value while a call for what is new is under way gets it by another call, in which there is no version.
func TestWantedDuringCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, Interval: time.Hour})
		w.says(0, "a=5@5")
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 0, "a")
		w.says(time.Second) // nothing is new
		w.table.Notify("x", "a")
		synctest.Wait()
		w.took(&w.posts)
		track(c, 1, 0, "a")
		if c.Publish("", channel.KeyValue{Key: "a", Version: 5, Data: []byte("5")}) {
			t.Error("the known version is taken")
		}
		w.want("published again", &w.posts, "")
		w.says(0, "a=5@5")
		time.Sleep(time.Second)
		w.want("asked", &w.calls, "0s a:0, 0s a:5, 1s a:0")
		w.want("told", &w.posts, "0: a=5@5, 1: a=5@5")
	})
}

// After a removal there is no version and no value, so any version counts.
func TestRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, KeepLatest: true, Interval: time.Second})
		w.says(0, "a=5@5", "b=1@1")
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 0, "a", "b")
		w.says(0, "a")
		time.Sleep(time.Second)
		w.want("removed", &w.posts, "0: a=5@5, 0: b=1@1, 0: a removed")
		w.mu.Lock()
		if e := w.events[len(w.events)-2]; e.Removed != 1 || e.Unchanged != 1 || e.Changed != 0 {
			t.Errorf("the call: %+v", e)
		}
		w.mu.Unlock()
		w.says(0)
		if got := track(c, 1, 0, "a"); got != "" {
			t.Errorf("kept: %q", got)
		}
		w.says(0, "a=2@2")
		time.Sleep(time.Second)
		w.want("anew", &w.posts, "0: a=2@2, 1: a=2@2")
	})
}

// Loops without trackers hear of nothing. Without a time to linger, a key is forgotten at once, and with it its value.
func TestUntrack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, KeepLatest: true, Interval: time.Second, Linger: -1})
		w.says(0, "a=1@1")
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 0, "a")
		track(c, 1, 0, "a")
		w.took(&w.posts)
		c.Untrack(0, "a")
		w.says(0, "a=2@2")
		time.Sleep(time.Second)
		w.want("one loop", &w.posts, "1: a=2@2 after 1@1")
		c.Untrack(1, "a")
		if n := w.table.Notify("x", "a"); n != 0 || len(c.state.keys) != 0 {
			t.Errorf("%d keys are tracked, of %d", n, len(c.state.keys))
		}
	})
}

// A value that is published counts only in versioned channels, for keys that somebody tracks.
func TestPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Interval: time.Hour})
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 1, "a")
		if c.Publish("", channel.KeyValue{Key: "a", Version: 9, Data: []byte("9")}) {
			t.Error("a value is taken without versions")
		}
		w.want("published", &w.posts, "")
	})
}

// What comes by the broker is checked, there and here.
func TestBroadcast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, Interval: time.Hour})
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 1, "a")
		take := func(ch string, p protocol.Publication) bool {
			return w.table.Take(ch, broker.PublicationEvent{Pub: &channel.Publication{Data: p.AppendProto(nil)}})
		}
		if take("y", protocol.Publication{Key: "a", Version: 2, Data: []byte("2")}) {
			t.Error("a publication of another channel is taken")
		}
		for _, p := range []protocol.Publication{{Key: "a", Data: []byte("0")}, {Version: 3, Data: []byte("3")}} {
			if w.log.Reset(); !take("x", p) || !strings.Contains(w.log.String(), "is no value of a key") {
				t.Errorf("%+v: %s", p, w.log.String())
			}
		}
		if !take("x", protocol.Publication{Key: "a", Version: 2, Data: []byte("2")}) {
			t.Error("a value is not taken")
		}
		w.want("taken", &w.posts, "0: a=2@2")
		p := Polls{Table: w.table} // without a broker: nothing of this gets so far
		long := strings.Repeat("x", channel.MaxKeyLength+1)
		for _, v := range []channel.KeyValue{{Key: long, Version: 1, Data: []byte("1")}, {Version: 1, Data: []byte("1")}, {Key: "a", Data: []byte("1")}, {Key: "a", Version: 1, Data: []byte("bad")}} {
			if err := p.Publish(t.Context(), "x", "", v); err == nil {
				t.Errorf("%.20q, version %d: no error", v.Key, v.Version)
			}
		}
		if err := p.Publish(t.Context(), "", "", channel.KeyValue{Key: "a", Version: 1, Data: []byte("1")}); err == nil {
			t.Error("no channel: no error")
		}
	})
}

// Not more calls than allowed are under way, of all channels together.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Interval: time.Hour})
		w.says(time.Second)
		for _, ch := range []string{"x", "y", "z"} {
			track(w.table.Acquire(ch, &w.opts), 0, 0, "k")
		}
		synctest.Wait()
		if n := strings.Count(w.took(&w.calls), "0s"); n != 2 {
			t.Errorf("%d calls at once", n)
		}
		time.Sleep(time.Second)
		w.want("the third", &w.calls, "1s k:0")
		time.Sleep(time.Second)
		synctest.Wait()
		if e := w.events[2]; e.Waited != time.Second || e.Took != time.Second || e.Kind != observe.PollTrack {
			t.Errorf("the third call: %+v", e)
		}
	})
}

// Without versions, each new content gets a number, greater than any before in the channel; trackers that come
// later get the value that is known already, once more, from the application.
func TestVersionless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Interval: time.Second})
		w.says(0, "a=1", "b=1")
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 0, "a", "b")
		w.want("first", &w.posts, "0: a=1@1, 0: b=1@2")
		w.took(&w.calls)
		time.Sleep(time.Second)
		w.want("unchanged", &w.posts, "")
		w.want("without versions", &w.calls, "1s a:0 b:0")
		w.says(0, "a=2@1")
		time.Sleep(time.Second)
		w.want("changed", &w.posts, "0: a=2@3")
		w.took(&w.calls)
		w.says(0, "b=1")
		track(c, 2, 0, "b")
		w.want("asked again", &w.calls, "2s b:0")
		w.want("the same, for whoever has not got it", &w.posts, "0: b=1@2, 2: b=1@2")
		track(c, 1, 3, "a")
		w.want("the client has it", &w.calls, "")
		// Everybody leaves the key; who comes back has a version that the new ones are greater than.
		c.Untrack(0, "a")
		c.Untrack(1, "a")
		w.says(0, "a=2")
		time.Sleep(5 * time.Second)
		track(c, 0, 3, "a")
		time.Sleep(2 * time.Second)
		w.want("numbers go on", &w.posts, "0: a=2@4")
	})
}

// With versions nothing goes backwards, whatever the application answers; bad values are logged with their key.
func TestVersioned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, KeepLatest: true, Interval: time.Second})
		w.says(0, "a=five@5")
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 0, "a")
		w.want("first", &w.posts, "0: a=five@5")
		for _, v := range []string{"a=older@4", "a=same@5", "a=none", "a=bad@9", "a=@9", "other=1@9"} {
			w.says(0, v)
			time.Sleep(time.Second)
			w.want(v, &w.posts, "")
		}
		w.does(func([]channel.PolledKey) (channel.PollAnswer, error) {
			return values("a=no@99"), errors.New("backend is down")
		})
		time.Sleep(time.Second)
		w.want("an error", &w.posts, "")
		w.does(func([]channel.PolledKey) (channel.PollAnswer, error) { panic("ouch") })
		time.Sleep(time.Second)
		w.want("a panic", &w.posts, "")
		synctest.Wait()
		for _, text := range []string{
			"key=a error=\"the version is lower", "key=a error=\"the value has no version", "key=a error=\"is not JSON\"",
			"key=a error=\"the value has no data", "key=other error=\"the key was not asked for", "keys=1 error=\"backend is down\"", "Poll function panicked",
		} {
			if !strings.Contains(w.log.String(), text) {
				t.Errorf("the log does not have %q:\n%s", text, w.log.String())
			}
		}
		if got := track(c, 1, 3, "a"); got != "a=five@5" {
			t.Errorf("kept: %q", got)
		}
		w.says(0, "a=six@6")
		time.Sleep(time.Second)
		w.want("newer", &w.posts, "0: a=six@6 after five@5, 1: a=six@6 after five@5")
		w.says(0, "a")
		time.Sleep(time.Second)
		w.want("removed", &w.posts, "0: a removed, 1: a removed")
	})
}

// The application's own value before is a base for differences only if it is the one that is known.
func TestPrevious(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, Interval: time.Second})
		w.says(0, "a=1@1")
		track(w.table.Acquire("x", &w.opts), 0, 0, "a")
		w.want("first", &w.posts, "0: a=1@1")
		w.does(func([]channel.PolledKey) (channel.PollAnswer, error) {
			a := values("a=2@2")
			a.Values[0].Prev = []byte("1")
			return a, nil
		})
		time.Sleep(time.Second)
		w.want("known", &w.posts, "0: a=2@2 after 1@1")
		w.does(func([]channel.PolledKey) (channel.PollAnswer, error) {
			a := values("a=4@4")
			a.Values[0].Prev = []byte("3")
			return a, nil
		})
		time.Sleep(time.Second)
		w.want("unknown", &w.posts, "0: a=4@4")
	})
}

// Another epoch makes versions begin anew, once; what was asked for in the epoch before does not bring it back.
func TestEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, Interval: time.Hour, BatchSize: 1})
		after := func(wait time.Duration) func([]channel.PolledKey) (channel.PollAnswer, error) {
			return func([]channel.PolledKey) (channel.PollAnswer, error) {
				a := values("a=e1@7")
				a.Epoch = "e1"
				time.Sleep(wait)
				return a, nil
			}
		}
		w.does(after(0))
		c := w.table.Acquire("x", &w.opts)
		track(c, 1, 0, "a")
		w.want("the first epoch", &w.posts, "0: reset, 1: reset, 2: reset, 1: a=e1@7")
		w.does(after(time.Second))
		c.Notify([]string{"a"})
		synctest.Wait()
		if !c.Publish("e2", channel.KeyValue{Key: "a", Version: 1, Data: []byte("new")}) {
			t.Error("the value is dropped")
		}
		w.want("the next epoch", &w.posts, "0: reset, 1: reset, 2: reset, 1: a=new@1")
		time.Sleep(time.Second)
		w.want("an answer from before", &w.posts, "")
		if epoch, generation := c.Epoch(); epoch != "e2" || generation != 2 {
			t.Errorf("epoch %s, generation %d", epoch, generation)
		}
		if c.Publish("", channel.KeyValue{Key: "a", Version: 1, Data: []byte("again")}) || c.Publish("e2", channel.KeyValue{Key: "z", Version: 1, Data: []byte("1")}) {
			t.Error("a value is taken that is not newer, or that nobody tracks")
		}
	})
}

// A notification during a call has the key asked for once more; a removal in an answer does not undo what was
// published during the call.
func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, Interval: time.Hour})
		w.says(time.Second, "a=1@1")
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 0, "a")
		synctest.Wait()
		w.says(time.Second, "a=2@2")
		w.table.Notify("x", "a", "unknown")
		w.table.Notify("unknown", "a")
		time.Sleep(2 * time.Second)
		w.want("both", &w.posts, "0: a=1@1, 0: a=2@2")
		w.want("asked", &w.calls, "0s a:0, 1s a:1")
		w.says(time.Second, "a")
		w.table.Notify("x", "a")
		synctest.Wait()
		c.Publish("", channel.KeyValue{Key: "a", Version: 3, Data: []byte("3")})
		time.Sleep(time.Second)
		w.want("the newer one stays", &w.posts, "0: a=3@3")
	})
}

// Keys of notifications wait for others, each once, until there are enough of them or the first has waited long enough.
func TestNotifyBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, Interval: time.Hour, NotifyDelay: 100 * time.Millisecond, NotifyBatch: 3})
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 1, "a", "b", "c", "d", "e", "f") // with versions, so that nothing is urgent
		if n := w.table.Notify("x", "a", "unknown", "a"); n != 2 {
			t.Errorf("%d are tracked", n)
		}
		time.Sleep(60 * time.Millisecond)
		w.table.Notify("x", "b", "a")
		w.want("they wait", &w.calls, "")
		time.Sleep(40 * time.Millisecond)
		w.want("after the delay of the first", &w.calls, "100ms a:0 b:0")
		time.Sleep(time.Second)
		w.want("once", &w.calls, "")
		w.table.Notify("x", "c", "d")
		time.Sleep(50 * time.Millisecond)
		w.table.Notify("x", "e", "f")
		w.want("enough of them", &w.calls, "1.15s c:0 d:0 e:0 f:0")
		w.table.Notify("x", "a")
		time.Sleep(70 * time.Millisecond)
		w.want("the delay begins anew", &w.calls, "")
		c.Untrack(0, "a")
		time.Sleep(time.Second)
		w.want("nobody tracks it any more", &w.calls, "")
		synctest.Wait()
		if e := w.events[len(w.events)-2]; e.Kind != observe.PollNotify || e.Keys != 4 {
			t.Errorf("the call: %+v", e)
		}
		w.table.Notify("x", "b", "c", "d")
		w.want("just enough", &w.calls, w.now().String()+" b:0 c:0 d:0")
		w.table.Notify("x", "b")
		time.Sleep(time.Second)
		w.want("one by one", &w.calls, "2.32s b:0")
		track(c, 1, 0, "b")
		synctest.Wait()
		if e := w.events[len(w.events)-1]; e.Kind != observe.PollTrack {
			t.Errorf("the call for a client: %+v", e)
		}
		if w.table.Notify("x", "a", "z"); !w.events[len(w.events)-1].Failed {
			t.Error("keys that nobody tracks are notified of")
		}
		if w.table.Notify("x", "c"); w.events[len(w.events)-1].Failed {
			t.Error("a notification failed")
		}
		c.close()
		if c.gathering.Stop() {
			t.Error("keys of a channel that has ended are waited for")
		}
		c.gathering, c.state.noted = nil, nil
		if c.Notify([]string{"d"}); c.gathering != nil {
			t.Error("keys of a channel that has ended begin to wait")
		}
	})
}

// Without NotifyBatch, as many keys as there are in a call do not wait.
func TestNotifyWholeCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, Interval: time.Hour, NotifyDelay: time.Minute, BatchSize: 2})
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 1, "a", "b")
		w.table.Notify("x", "a")
		w.want("one", &w.calls, "")
		w.table.Notify("x", "b")
		w.want("two", &w.calls, "0s a:0 b:0")
	})
}

// What waits for others is asked for again if a call was made meanwhile: that may have read the value too early.
func TestNotifyDuringCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, Interval: time.Hour, NotifyDelay: time.Second})
		w.says(5*time.Second, "a=1@1")
		c := w.table.Acquire("x", &w.opts)
		track(c, 0, 0, "a")
		time.Sleep(time.Second)
		w.table.Notify("x", "a")
		w.says(0, "a=2@2")
		time.Sleep(10 * time.Second)
		w.want("asked", &w.calls, "0s a:0, 5s a:1")
		w.want("both", &w.posts, "0: a=1@1, 0: a=2@2")
	})
}

// A channel lives for a second after its last subscriber, with its epoch and its keys.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Interval: time.Minute})
		c := w.table.Acquire("x", &w.opts)
		epoch, _ := c.Epoch()
		track(c, 0, 0, "a")
		if channels, keys := w.table.Size(); channels != 1 || keys != 1 {
			t.Errorf("%d channels, %d keys", channels, keys)
		}
		c.Untrack(0, "a")
		w.table.Release(c)
		time.Sleep(900 * time.Millisecond)
		if again := w.table.Acquire("x", &w.opts); again != c {
			t.Error("the channel is another one")
		}
		w.table.Release(c)
		time.Sleep(1100 * time.Millisecond)
		if w.table.Find("x") != nil {
			t.Error("the channel is still there")
		}
		if n := w.table.size.Load(); n != 0 {
			t.Errorf("%d channels are counted", n)
		}
		c = w.table.Acquire("x", &w.opts)
		if next, _ := c.Epoch(); next == epoch || len(next) != 8 {
			t.Errorf("epochs %s and %s", epoch, next)
		}
		// Who comes back and goes again begins the time anew.
		w.table.Release(c)
		time.Sleep(900 * time.Millisecond)
		w.table.Release(w.table.Acquire("x", &w.opts))
		time.Sleep(900 * time.Millisecond)
		if w.table.Find("x") != c {
			t.Error("the channel is forgotten too early")
		}
	})
}

func TestAdapt(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ interval, most, work, want time.Duration }{
		{10 * s, 0, 100 * s, 10 * s}, {10 * s, 60 * s, 4 * s, 10 * s}, {10 * s, 60 * s, 5 * s, 10 * s}, {10 * s, 60 * s, 8 * s, 16 * s},
		{10 * s, 60 * s, 11 * s, 20 * s}, {40 * s, 60 * s, 50 * s, 60 * s}, {60 * s, 60 * s, 10 * s, 45 * s}, {12 * s, 60 * s, s, 10 * s},
	} {
		if got := adapt(c.interval, 10*s, c.most, c.work); got != c.want {
			t.Errorf("%v of %v: %v, want %v", c.work, c.interval, got, c.want)
		}
	}
}

// A slow application is asked less often, and again as often as usual once it is fast.
func TestBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, channel.SharedPoll{Versioned: true, Interval: 10 * time.Second, MaxInterval: time.Minute})
		w.says(15 * time.Second)
		track(w.table.Acquire("x", &w.opts), 0, 1, "a")
		time.Sleep(80 * time.Second)
		w.want("slow", &w.calls, "10s a:0, 30s a:0, 1m0s a:0")
		w.says(0)
		time.Sleep(80 * time.Second)
		w.want("fast", &w.calls, "1m30s a:0, 1m52.5s a:0, 2m9.375s a:0, 2m22.03125s a:0, 2m32.03125s a:0")
	})
}
