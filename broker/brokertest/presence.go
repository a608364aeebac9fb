package brokertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// RunPresence tests presence managers, whose entries must live for ttl without being renewed. The tests are parallel:
// they run when the caller has returned.
func RunPresence(t *testing.T, newPresence func(t testing.TB, ttl time.Duration) broker.PresenceManager, caps Capabilities) {
	caps = caps.withDefaults()
	for name, test := range map[string]func(*presenceFixture){
		"Traits":       func(f *presenceFixture) { f.traits = f.p.Describe(); f.checkTraits(f.p) },
		"AddRemove":    testPresenceAddRemove,
		"Users":        testPresenceUsers,
		"UserChange":   testPresenceUserChange,
		"Separate":     testPresenceSeparate,
		"Expiry":       testPresenceExpiry,
		"Owned":        testPresenceOwned,
		"Cancelled":    testPresenceCancelled,
		"Abandoned":    testPresenceAbandoned,
		"Many":         testPresenceMany,
		"Concurrent":   testPresenceConcurrent,
		"Model":        testPresenceModel,
		"RemovedStays": testPresenceRemovedStays,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caps.bubble(t, func(t *testing.T) {
				f := &presenceFixture{fixture: &fixture{T: t, caps: caps, ctx: context.Background()}, make: newPresence}
				ttl := f.units(10)
				if caps.slow {
					ttl = time.Hour // nothing is meant to expire
				}
				f.renew(ttl)
				test(f)
			})
		})
	}
}

type presenceFixture struct {
	*fixture
	make func(t testing.TB, ttl time.Duration) broker.PresenceManager
	p    broker.PresenceManager
	ttl  time.Duration
}

func (f *presenceFixture) renew(ttl time.Duration) { f.p, f.ttl = f.make(f, ttl), ttl }

func clientInfo(client, user string) *channel.ClientInfo {
	return &channel.ClientInfo{Client: client, User: user, ConnInfo: []byte(`{"of":"` + client + `"}`)}
}

func (f *presenceFixture) add(ch, client, user string) {
	f.Helper()
	f.must(f.p.Add(f.ctx, ch, clientInfo(client, user)))
}

func (f *presenceFixture) remove(ch, client, user string) {
	f.Helper()
	f.must(f.p.Remove(f.ctx, ch, client, user))
}

// want compares the clients in the channel: pairs of client and user.
func (f *presenceFixture) want(ch string, pairs ...string) {
	f.Helper()
	want := map[string]*channel.ClientInfo{}
	users := map[string]bool{}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = clientInfo(pairs[i], pairs[i+1])
		users[pairs[i+1]] = true
	}
	got, err := f.p.Presence(f.ctx, ch)
	f.must(err)
	f.clock.Check()
	f.equal("presence", got, want)
	stats, err := f.p.Stats(f.ctx, ch)
	f.must(err)
	f.clock.Check()
	f.equal("stats", stats, broker.PresenceStats{Clients: len(want), Users: len(users)})
}

func testPresenceAddRemove(f *presenceFixture) {
	ch := f.name()
	f.want(ch)
	f.remove(ch, "c1", "u1")
	info := &channel.ClientInfo{Client: "c1", User: "u1", ConnInfo: []byte("conn"), ChanInfo: []byte{0, 0xff}}
	f.must(f.p.Add(f.ctx, ch, info))
	got, err := f.p.Presence(f.ctx, ch)
	f.must(err)
	f.equal("presence", got, map[string]*channel.ClientInfo{"c1": info})
	f.add(ch, "c1", "u1")
	f.add(ch, "c2", "u2")
	f.want(ch, "c1", "u1", "c2", "u2")
	f.remove(ch, "c1", "u1")
	f.remove(ch, "c1", "u1")
	f.remove(ch, "c3", "u3")
	f.want(ch, "c2", "u2")
	f.remove(ch, "c2", "u2")
	f.want(ch)
}

func testPresenceUsers(f *presenceFixture) {
	ch := f.name()
	f.add(ch, "c1", "u")
	f.add(ch, "c2", "u")
	f.add(ch, "c3", "")
	f.add(ch, "c4", "")
	f.want(ch, "c1", "u", "c2", "u", "c3", "", "c4", "")
	f.remove(ch, "c1", "u")
	f.want(ch, "c2", "u", "c3", "", "c4", "")
	f.remove(ch, "c2", "u")
	f.remove(ch, "c4", "")
	f.want(ch, "c3", "")
}

func testPresenceUserChange(f *presenceFixture) {
	ch := f.name()
	f.add(ch, "c1", "u1")
	f.add(ch, "c2", "u1")
	f.add(ch, "c1", "u2")
	f.want(ch, "c1", "u2", "c2", "u1")
	f.remove(ch, "c1", "u2")
	f.want(ch, "c2", "u1")
}

func testPresenceSeparate(f *presenceFixture) {
	first, second := f.name(), f.name()
	f.add(first, "c", "u")
	f.add(second, "c", "u")
	f.remove(first, "c", "u")
	f.want(first)
	f.want(second, "c", "u")
}

func testPresenceExpiry(f *presenceFixture) {
	timely(func(*fixture) { f.expire() })(f.fixture)
}

// expire has entries of four units expire.
func (f *presenceFixture) expire() {
	f.renew(f.units(4))
	ch, other := f.name(), f.name()
	f.add(ch, "renewed", "u1")
	f.add(ch, "left", "u2")
	f.add(other, "left", "u2")
	f.advance(2)
	f.add(ch, "renewed", "u1")
	f.advance(2.5) // with the unit that an attempt may take, "renewed" is still there
	f.want(ch, "renewed", "u1")
	f.want(other)
	f.remove(ch, "left", "u2")
	f.advance(4)
	f.want(ch)
	f.add(ch, "left", "u2")
	f.want(ch, "left", "u2")
}

func testPresenceOwned(f *presenceFixture) {
	ch := f.name()
	f.add(ch, "c1", "u")
	early, err := f.p.Presence(f.ctx, ch)
	f.must(err)
	f.add(ch, "c2", "u")
	f.equal("kept result", len(early), 1)
	clear(early)
	f.want(ch, "c1", "u", "c2", "u")
}

func testPresenceCancelled(f *presenceFixture) {
	ch := f.name()
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, errPresence := f.p.Presence(ctx, ch)
	_, errStats := f.p.Stats(ctx, ch)
	for what, err := range map[string]error{
		"Add": f.p.Add(ctx, ch, clientInfo("c", "u")), "Remove": f.p.Remove(ctx, ch, "c", "u"),
		"Presence": errPresence, "Stats": errStats,
	} {
		if err == nil {
			f.Errorf("%s: no error with a cancelled context", what)
		}
	}
	f.want(ch)
}

// testPresenceAbandoned ends the context of calls at any moment, so each may be done or not. The call after them counts.
func testPresenceAbandoned(f *presenceFixture) {
	ch := f.name()
	var clients sync.WaitGroup
	for i := range 100 {
		clients.Go(func() {
			client := fmt.Sprint("c", i)
			add := func(ctx context.Context) error { return f.p.Add(ctx, ch, clientInfo(client, "u")) }
			remove := func(ctx context.Context) error { return f.p.Remove(ctx, ch, client, "u") }
			for round := range 10 {
				abandon := func(call func(ctx context.Context) error) {
					ctx, cancel := context.WithTimeout(f.ctx, time.Duration(i*round)*time.Microsecond)
					defer cancel()
					_ = call(ctx) // may succeed
				}
				abandon(remove)
				f.mustGo(add(f.ctx))
				abandon(add)
				f.mustGo(remove(f.ctx))
			}
		})
	}
	clients.Wait()
	f.want(ch)
	f.add(ch, "c0", "u")
	f.want(ch, "c0", "u")
}

func testPresenceMany(f *presenceFixture) {
	ch := f.name()
	const workers, each = 20, 10
	const n = workers * each
	var pairs []string
	for i := range n {
		pairs = append(pairs, fmt.Sprint("c", i), fmt.Sprint("u", i%7))
	}
	all := func(do func(client, user string) error) {
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				for i := w * each; i < (w+1)*each; i++ {
					f.mustGo(do(pairs[2*i], pairs[2*i+1]))
				}
			})
		}
		group.Wait()
	}
	all(func(client, user string) error { return f.p.Add(f.ctx, ch, clientInfo(client, user)) })
	f.want(ch, pairs...)
	last := pairs[2*n-2]
	all(func(client, user string) error {
		if client == last {
			return nil
		}
		return f.p.Remove(f.ctx, ch, client, user)
	})
	f.want(ch, pairs[2*n-2:]...)
}

func testPresenceConcurrent(f *presenceFixture) {
	names := []string{f.name(), f.name()}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 50 {
				ch, client := names[i%2], fmt.Sprint(worker, i)
				f.mustGo(f.p.Add(f.ctx, ch, clientInfo(client, "u")))
				_, err := f.p.Presence(f.ctx, ch)
				f.mustGo(err)
				_, err = f.p.Stats(f.ctx, ch)
				f.mustGo(err)
				f.mustGo(f.p.Remove(f.ctx, ch, client, "u"))
			}
		})
	}
	group.Wait()
	for _, ch := range names {
		f.want(ch)
	}
}

// testPresenceModel compares random histories with a plain map. In real time nothing expires.
func testPresenceModel(f *presenceFixture) {
	type entry struct {
		user  string
		until time.Duration
	}
	rapid.Check(f, func(t *rapid.T) {
		ch, model, now := f.name(), map[string]entry{}, time.Duration(0)
		client := rapid.SampledFrom([]string{"c1", "c2", "c3", "c4"})
		user := rapid.SampledFrom([]string{"", "u1", "u2"})
		actions := map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				c, u := client.Draw(t, "client"), user.Draw(t, "user")
				f.must(f.p.Add(f.ctx, ch, clientInfo(c, u)))
				model[c] = entry{u, now + f.ttl}
			},
			"remove": func(t *rapid.T) {
				c := client.Draw(t, "client")
				f.must(f.p.Remove(f.ctx, ch, c, model[c].user))
				delete(model, c)
			},
			"": func(t *rapid.T) {
				users := map[string]bool{}
				for c, e := range model {
					if e.until <= now {
						delete(model, c)
						continue
					}
					users[e.user] = true
				}
				got, err := f.p.Presence(f.ctx, ch)
				f.must(err)
				for c, info := range got {
					if info.Client != c || info.User != model[c].user {
						t.Fatalf("client %s: %+v, want user %q", c, info, model[c].user)
					}
				}
				stats, err := f.p.Stats(f.ctx, ch)
				f.must(err)
				want := broker.PresenceStats{Clients: len(model), Users: len(users)}
				if diff := cmp.Diff(want, stats); diff != "" || len(got) != len(model) {
					t.Fatalf("%d clients, stats (-want +got):\n%s", len(got), diff)
				}
			},
		}
		if !f.caps.slow {
			actions["advance"] = func(t *rapid.T) {
				// A little more, so that nothing expires at this very moment.
				d := f.ttl*time.Duration(rapid.IntRange(1, 5).Draw(t, "time"))/4 + f.ttl/1009
				f.caps.Advance(f, d)
				now += d
			}
		}
		t.Repeat(actions)
	})
}
