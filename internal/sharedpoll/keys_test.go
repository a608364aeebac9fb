package sharedpoll

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/protocol"
)

// probe is a subscription that notes what it gets.
type probe struct {
	t          *testing.T
	on         Loop
	keys       *Keys
	membership hub.Membership
	got        []string
	asked      int
	inbox      []*hub.Message
}

// probing runs a test with a subscription. Values keep their version as their data.
func probing(t *testing.T, opts channel.SharedPoll, f func(p *probe)) {
	synctest.Test(t, func(t *testing.T) {
		p := &probe{t: t}
		opts.Versioned = true
		opts.Interval = time.Hour
		opts.Track = func(context.Context, *channel.TrackRequest) error { return nil }
		opts.Poll = func(context.Context, string, []channel.PolledKey) (channel.PollAnswer, error) {
			p.asked++
			return channel.PollAnswer{}, nil
		}
		table := New(Config{
			Loops: 1, Concurrency: 1, Log: slog.New(slog.DiscardHandler),
			Check: func(string, []byte) (bool, error) { return true, nil },
			Post:  func(_ int, m *hub.Message) { p.inbox = append(p.inbox, m) },
		})
		defer table.Close()
		p.on = Loop{Hub: hub.New(new(sendqueue.Arena)), Table: table}
		p.on.Hub.Add(name, p)
		p.keys = NewKeys(&p.on, p, name, &opts)
		p.keys.Begin(hub.Escaped)
		f(p)
		p.keys.End()
		p.on.Hub.Remove(p)
	})
}

func (p *probe) Membership() *hub.Membership { return &p.membership }
func (p *probe) DeliverAll(*hub.Batch) bool  { return false }
func (p *probe) Deliver(*hub.Delivery)       {}
func (p *probe) Reset()                      { p.got = append(p.got, "reset") }
func (p *probe) Send(d *hub.Delivery, form hub.Form) {
	text := fmt.Sprintf("%s@%d", d.Pub.Key, d.Pub.Version)
	if d.Pub.Removed {
		text = d.Pub.Key + " removed"
	}
	if form&hub.Patched != 0 {
		text += fmt.Sprintf(" from %d", d.Prev.Version)
	}
	p.got = append(p.got, text)
}

// batch has keys with a version.
func batch(version uint64, keys ...string) *protocol.TrackBatch {
	b := new(protocol.TrackBatch)
	for _, key := range keys {
		b.Items = append(b.Items, &protocol.KeyedItem{Key: key, Version: version})
	}
	return b
}

func trackRequest(batches ...*protocol.TrackBatch) *protocol.SubRefreshRequest {
	return &protocol.SubRefreshRequest{Type: 1, Track: batches}
}

// take does a command, with the expiration of each batch, and returns the items of the result.
func (p *probe) take(req *protocol.SubRefreshRequest, budget int, expireAt ...int64) (r Result, items string) {
	p.t.Helper()
	expireAt = append(expireAt, make([]int64, len(req.Track))...)
	if err := p.keys.Take(req, expireAt, time.Now().UnixNano(), budget, protocol.Protobuf, &r); err != nil {
		p.t.Fatal(err)
	}
	var list []string
	for _, i := range r.Items {
		list = append(list, fmt.Sprintf("%s@%d", i.Key, i.Version))
	}
	return r, strings.Join(list, " ")
}

// publish has the node know a value of a key.
func (p *probe) publish(key string, version uint64) {
	p.on.Table.Find(name).Publish("", channel.KeyValue{Key: key, Version: version, Data: []byte(strings.Repeat("x", 100) + fmt.Sprint(version))})
}

// want compares what the client has got.
func (p *probe) want(what, want string) {
	p.t.Helper()
	synctest.Wait()
	for _, m := range p.inbox {
		p.on.Hub.Publish(m)
	}
	p.inbox = nil
	p.on.Hub.Deliver(1 << 20)
	if got := strings.Join(p.got, ", "); got != want {
		p.t.Errorf("%s: got %q, want %q", what, got, want)
	}
	p.got = nil
}

// Differences build on what the client has got on this connection, and on nothing else.
func TestDifferences(t *testing.T) {
	probing(t, channel.SharedPoll{KeepLatest: true}, func(p *probe) {
		p.take(trackRequest(batch(1, "a")), 1000)
		p.publish("a", 1)
		p.publish("a", 2)
		p.want("its own version may be an older connection's", "a@2")
		p.publish("a", 3)
		p.want("it has the one before", "a@3 from 2")
		p.publish("a", 3)
		p.want("nothing newer", "")
		if _, items := p.take(trackRequest(batch(2, "a")), 0); items != "a@3" {
			t.Errorf("it says that it has an older one: %s", items)
		}
		p.publish("a", 4)
		p.want("it has got the one before", "a@4 from 3")
		p.take(trackRequest(batch(4, "a")), 0)
		p.publish("a", 5)
		p.want("it says what is known", "a@5 from 4")
		p.take(trackRequest(batch(9, "a")), 0)
		p.publish("a", 8)
		p.want("it says that it has a newer one", "")
		p.publish("a", 10)
		p.want("full", "a@10")
		p.publish("a", 11)
		p.take(trackRequest(batch(11, "a")), 0) // before that comes: it has it from elsewhere
		p.want("it says that it has that", "")
		p.publish("a", 12)
		p.want("and has not got it on this connection", "a@12")
		p.on.Hub.Publish(&hub.Message{Channel: name, Keyed: true, Pub: &channel.Publication{Key: "a", Version: 14}, Prev: &channel.Publication{Version: 13}})
		p.want("it does not have the one before", "a@14")
	})
}

// What is kept comes in the reply, as far as there is room, and then once as a push.
func TestBudget(t *testing.T) {
	probing(t, channel.SharedPoll{KeepLatest: true}, func(p *probe) {
		p.take(trackRequest(batch(1, "a", "b", "c")), 1000)
		for _, key := range []string{"a", "b", "c"} {
			p.publish(key, 2)
		}
		p.want("all", "a@2, b@2, c@2")
		if _, items := p.take(trackRequest(batch(0, "a", "b", "c")), 400); items != "a@2 b@2" {
			t.Errorf("in the reply: %s", items)
		}
		p.want("the rest", "c@2")
		if _, items := p.take(trackRequest(batch(0, "a", "b")), 1); items != "a@2" {
			t.Errorf("without room: %s", items)
		}
		p.want("the rest", "b@2")
		p.publish("a", 3)
		p.want("a difference to the reply", "a@3 from 2")
		// A value of the reply that is also under way is not sent again.
		p.publish("b", 3)
		if _, items := p.take(trackRequest(batch(0, "b")), 1000); items != "b@3" {
			t.Errorf("in the reply: %s", items)
		}
		p.want("not twice", "")
	})
}

// A message of versions before ends the subscription; one that has ended hears of nothing.
func TestOtherVersions(t *testing.T) {
	probing(t, channel.SharedPoll{}, func(p *probe) {
		p.take(trackRequest(batch(1, "a")), 1000)
		p.on.Hub.Publish(&hub.Message{Channel: name, Keyed: true, Round: 7, Pub: &channel.Publication{Key: "a", Version: 9}})
		p.want("another generation", "reset")
		p.on.Hub.Publish(&hub.Message{Channel: name, Keyed: true, Pub: &channel.Publication{Key: "a", Removed: true}})
		p.on.Hub.Publish(&hub.Message{Channel: name, Keyed: true, Pub: &channel.Publication{Key: "a", Version: 9}})
		p.want("removed", "a removed")
		if p.keys.Len() != 0 {
			t.Error("the key is tracked")
		}
	})
}

// Keys expire one after the other, with their grace. The reply has the time of the first.
func TestExpire(t *testing.T) {
	probing(t, channel.SharedPoll{KeyGrace: 10 * time.Second}, func(p *probe) {
		now := time.Now().Unix()
		r, _ := p.take(trackRequest(batch(1, "a"), batch(1, "b"), batch(1, "c"), batch(1, "d")), 1000, now+60, now+30, now+90, 0)
		if !r.Expires || r.TTL != 30 {
			t.Errorf("expires: %v, in %d s", r.Expires, r.TTL)
		}
		for _, step := range []struct {
			after time.Duration
			keys  int
		}{{30 * time.Second, 4}, {40 * time.Second, 4}, {40*time.Second + 1, 3}, {70 * time.Second, 3}, {70*time.Second + 1, 2}, {100 * time.Second, 2}, {101 * time.Second, 1}, {time.Hour, 1}} {
			p.keys.Expire(now*int64(time.Second) + int64(step.after))
			if n := p.keys.Len(); n != step.keys {
				t.Errorf("after %v: %d keys, want %d", step.after, n, step.keys)
			}
		}
		p.take(trackRequest(batch(1, "e"), batch(1, "f")), 1000, now+30, now+60)
		if p.keys.Expire((now + 70) * int64(time.Second)); p.keys.Len() != 2 {
			t.Errorf("of two more: %d keys in all", p.keys.Len())
		}
		p.take(&protocol.SubRefreshRequest{Type: 2, Untrack: []string{"f"}}, 1000)
		if r, _ := p.take(trackRequest(batch(1, "d")), 1000); r.Expires {
			t.Error("a key expires that has no time")
		}
		if channels, keys := p.on.Table.Size(); channels != 1 || keys != 1 {
			t.Errorf("%d channels, %d keys", channels, keys)
		}
	})
}

// A key that a command also untracks is not tracked. Of a key that comes twice, the last version counts.
func TestOneCommand(t *testing.T) {
	probing(t, channel.SharedPoll{KeepLatest: true}, func(p *probe) {
		req := trackRequest(batch(5, "a", "b"), batch(7, "b"))
		req.Untrack = []string{"a"}
		p.take(req, 1000)
		p.publish("a", 9)
		p.publish("b", 6)
		p.publish("b", 8)
		p.want("got", "b@8")
		p.take(&protocol.SubRefreshRequest{Type: 2, Untrack: []string{"b", "unknown"}}, 1000)
		p.publish("b", 9)
		p.want("untracked", "")
		if p.asked != 0 {
			t.Errorf("asked %d times", p.asked)
		}
	})
}

// Commands that mean nothing, and those that would track too many keys, are refused; the bounds are allowed.
func TestCheck(t *testing.T) {
	probing(t, channel.SharedPoll{MaxKeys: 3}, func(p *probe) {
		p.take(trackRequest(batch(1, "a", "b")), 1000)
		long := strings.Repeat("x", channel.MaxKeyLength)
		both := trackRequest(batch(0, "c", "d"))
		both.Untrack = []string{"d", "a", "a"}
		twice := trackRequest(batch(0, "c", "d", "e"))
		twice.Untrack = []string{"a", "a"}
		for what, tt := range map[string]struct {
			req  *protocol.SubRefreshRequest
			want error
		}{
			"one more":              {trackRequest(batch(0, "c")), nil},
			"too many":              {trackRequest(batch(0, "c", "d")), errTooMany},
			"in two batches":        {trackRequest(batch(0, "c"), batch(0, "d")), errTooMany},
			"known ones":            {trackRequest(batch(0, "a", "b", "c", "a")), nil},
			"the same twice":        {trackRequest(batch(0, "c", "c"), batch(0, "c")), nil},
			"others go":             {both, nil},
			"one goes, named twice": {twice, errTooMany},
			"a long key":            {trackRequest(batch(0, long)), nil},
			"too long a key":        {trackRequest(batch(0, long+"x")), errKey},
			"an empty key":          {trackRequest(batch(0, "c", "")), errKey},
			"no keys":               {trackRequest(batch(0)), errNoKeys},
			"nothing to untrack":    {&protocol.SubRefreshRequest{Type: 2}, errNoKeys},
			"untrack":               {&protocol.SubRefreshRequest{Type: 2, Untrack: []string{"a"}}, nil},
			"another type":          {&protocol.SubRefreshRequest{Type: 3, Untrack: []string{"a"}}, errBadTrack},
		} {
			if err := p.keys.Check(tt.req); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", what, err, tt.want)
			}
		}
		// The application decides between Check and Take, and another command may come first.
		p.take(trackRequest(batch(0, "c")), 1000)
		var r Result
		if err := p.keys.Take(trackRequest(batch(0, "d")), []int64{0}, 0, 1000, protocol.Protobuf, &r); !errors.Is(err, errTooMany) || p.keys.Len() != 3 {
			t.Errorf("%v, %d keys", err, p.keys.Len())
		}
		if p.keys.opts.Track = nil; !errors.Is(p.keys.Check(trackRequest(batch(0, "a"))), errNoTrack) {
			t.Error("without Track, keys may be tracked")
		}
	})
}
