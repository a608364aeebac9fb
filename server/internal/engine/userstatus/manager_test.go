package userstatus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
)

// node has users, which it tells of in steps.
type node [][]string

func (n node) Cluster() gyro.Cluster { return nodes{node: n} }

func (n node) Inspect() gyro.Inspector { return users{node: n} }

type users struct {
	gyro.Inspector
	node node
}

func (u users) Users(context.Context) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for _, step := range u.node {
			if !yield(slices.Clone(step), nil) {
				return
			}
		}
	}
}

type nodes struct {
	gyro.Cluster
	node node
}

func (n nodes) Nodes(context.Context) ([]gyro.NodeInfo, error) {
	clients := 0
	for _, step := range n.node {
		clients += len(step)
	}
	return []gyro.NodeInfo{{NumClients: clients}, {NumClients: 1_000_000}}, nil
}

// counted is a store that counts calls and can fail.
type counted struct {
	Store
	mu      sync.Mutex
	calls   int
	largest int
	failing error
}

func (c *counted) Update(ctx context.Context, users []string, s Status) error {
	c.mu.Lock()
	c.calls++
	c.largest = max(c.largest, len(users))
	err := c.failing
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.Store.Update(ctx, users, s)
}

func (c *counted) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = err
}

// taken returns the number of calls since the last time.
func (c *counted) taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.calls
	c.calls = 0
	return n
}

type fixture struct {
	*Manager
	store *counted
	log   *bytes.Buffer
	mu    sync.Mutex
	seen  map[string]int // "kind ok" or "kind error": users
}

func start(t *testing.T, n Node) *fixture {
	t.Helper()
	f := &fixture{store: &counted{Store: NewMemory(time.Hour)}, log: new(bytes.Buffer), seen: make(map[string]int)}
	f.Manager = newManager(f.store, Config{Node: n, Logger: slog.New(slog.NewTextHandler(f.log, nil)), Observe: func(kind string, users int, err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.seen[fmt.Sprintf("%s %t", kind, err == nil)] += users
	}})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func (f *fixture) status(t *testing.T, user string) api.UserStatus {
	t.Helper()
	list, err := f.Get(t.Context(), []string{user})
	if err != nil || len(list) != 1 || list[0].User != user {
		t.Fatalf("%+v, %v", list, err)
	}
	return list[0]
}

// logged is what was logged since the last time.
func (f *fixture) logged() string {
	_ = logging.Flush(f.Manager.log)
	defer f.log.Reset()
	return f.log.String()
}

// TestOnline: who is connected is renewed in rounds, in batches, and a failure is told when it begins and when it ends.
func TestOnline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := make([]string, 2_000)
		for i := range large {
			large[i] = fmt.Sprint("user", i)
		}
		f := start(t, node{{"ann", "bob"}, large, {strings.Repeat("x", MaxUser+1)}})
		time.Sleep(2 * renewal)
		if s := f.status(t, "ann"); s.Online == 0 || s.Active != 0 {
			t.Errorf("after a round: %+v", s)
		}
		f.store.taken()
		for range 4 {
			time.Sleep(renewal)
			if s := f.status(t, "user1999"); time.Now().Unix()-s.Online > 2*int64(renewal/time.Second) {
				t.Errorf("online %d s ago", time.Now().Unix()-s.Online)
			}
		}
		if calls := f.store.taken(); calls < 3*5 || calls > 6*5 || f.store.largest > batchSize {
			t.Errorf("%d calls with up to %d users in 4 rounds of 2002 users", calls, f.store.largest)
		}
		f.store.fail(errors.New("gone"))
		time.Sleep(2 * renewal)
		if text := f.logged(); strings.Count(text, "cannot be noted") != 1 || !strings.Contains(text, "error=gone") {
			t.Errorf("a failure is logged as %q", text)
		}
		f.store.fail(nil)
		time.Sleep(2 * renewal)
		if text := f.logged(); strings.Count(text, "noted again") != 1 {
			t.Errorf("its end is logged as %q", text)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.seen["online true"] < 2002 || f.seen["online false"] == 0 || f.seen["get true"] == 0 {
			t.Errorf("observed: %v", f.seen)
		}
	})
}

// TestManyUsers: a round of many users takes no longer than that of a few, from the first on, and pauses between calls.
func TestManyUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var many node
		for i := range 200 {
			step := make([]string, batchSize)
			for u := range step {
				step[u] = fmt.Sprint(i*batchSize + u)
			}
			many = append(many, step)
		}
		f := start(t, many)
		time.Sleep(2 * renewal)
		synctest.Wait()
		if calls := f.store.taken(); calls < 200 || calls > 450 {
			t.Errorf("%d calls in up to two rounds of 200", calls)
		}
		if s := f.status(t, "102399"); s.Online == 0 {
			t.Error("the last user is not online after two rounds")
		}
		time.Sleep(time.Second)
		if calls := f.store.taken(); calls > 30 {
			t.Errorf("%d calls in a second", calls)
		}
	})
}

// TestConnected: who connects is online soon, and many at once are few calls.
func TestConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, node{})
		for i := range 3_000 {
			f.Connected(fmt.Sprint(i % 1_500))
		}
		f.Connected("")
		f.Connected(strings.Repeat("x", MaxUser+1))
		time.Sleep(gathering + time.Millisecond)
		synctest.Wait()
		if s := f.status(t, "1499"); s.Online == 0 {
			t.Errorf("%+v", s)
		}
		if calls := f.store.taken(); calls != 3 {
			t.Errorf("%d calls for 1500 users", calls)
		}
		for i := range maxGathered + 100 {
			f.Connected(fmt.Sprint(i))
		}
		if n := len(f.gathered); n != maxGathered {
			t.Errorf("%d users wait", n)
		}
	})
}

// TestActive: the client's RPC writes at most once a second.
func TestActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, node{})
		time.Sleep(time.Millisecond) // not with the ticks
		active := func(user string) {
			t.Helper()
			if err := f.Active(t.Context(), user); err != nil {
				t.Error(err)
			}
		}
		active("ann")
		first := f.status(t, "ann").Active
		for range 100 {
			active("ann")
		}
		if calls := f.store.taken(); calls != 1 || first != time.Now().Unix() {
			t.Errorf("%d calls, active at %d", calls, first)
		}
		time.Sleep(time.Second)
		active("ann")
		if s := f.status(t, "ann"); s.Active != first+1 || f.store.taken() != 1 {
			t.Errorf("%+v a second after %d", s, first)
		}
		if err := f.Delete(t.Context(), []string{"ann"}); err != nil {
			t.Error(err)
		}
		active("ann")
		if f.status(t, "ann").Active == 0 {
			t.Error("an activity after the deletion is lost")
		}
		f.store.fail(errors.New("gone"))
		if err := f.Active(t.Context(), "bob"); err == nil {
			t.Error("a failure is no error")
		}
		f.store.fail(nil)
		active("bob")
		if f.status(t, "bob").Active == 0 {
			t.Error("after a failure the next call is left out")
		}
		for _, user := range []string{"", strings.Repeat("x", MaxUser+1)} {
			if err := f.Active(t.Context(), user); !errors.Is(err, protocol.ErrorBadRequest) {
				t.Errorf("%.5q: %v", user, err)
			}
		}
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, node{})
		for _, users := range [][]string{nil, make([]string, MaxUsers+1), {"a", ""}, {strings.Repeat("x", MaxUser+1)}} {
			_, get := f.Get(t.Context(), users)
			for _, err := range []error{get, f.Update(t.Context(), users, ""), f.Delete(t.Context(), users)} {
				if !errors.Is(err, api.ErrBadRequest) {
					t.Errorf("%d users: %v", len(users), err)
				}
			}
		}
		if err := f.Update(t.Context(), []string{"a"}, strings.Repeat("x", MaxState+1)); !errors.Is(err, api.ErrBadRequest) {
			t.Error(err)
		}
		if err := f.Update(t.Context(), []string{"a"}, strings.Repeat("x", MaxState)); err != nil {
			t.Error(err)
		}
	})
}

// TestNew: the configuration says where the status is kept.
func TestNew(t *testing.T) {
	var none *Manager
	if err := none.Start(t.Context()); err != nil {
		t.Error(err)
	}
	none.Connected("ann")
	none.Close()
	for name, c := range map[string]struct {
		set  func(*config.Config)
		want string
	}{
		"off":          {func(c *config.Config) { c.UserStatus.Enabled = false }, "nothing"},
		"memory":       {func(*config.Config) {}, "memory"},
		"engine":       {func(c *config.Config) { c.Engine.Type = engines.TypeRedis; c.Engine.Redis.Prefix = "own" }, "engine.redis own.user_status."},
		"own":          {func(c *config.Config) { c.UserStatus.Redis.Address = []string{"10.0.0.1:6379"} }, "user_status.redis centrifugo.user_status."},
		"type":         {func(c *config.Config) { c.UserStatus.StorageType = "redis" }, "user_status.redis centrifugo.user_status."},
		"memory alone": {func(c *config.Config) { c.Engine.Type = engines.TypeRedis; c.UserStatus.StorageType = "memory" }, "memory"},
		"wrong":        {func(c *config.Config) { c.UserStatus.Redis.Address = []string{"ftp://x"} }, "user_status.redis.address"},
	} {
		cfg := config.DefaultConfig()
		cfg.UserStatus.Enabled = true
		c.set(cfg)
		k, err := New(cfg, Config{})
		got := "nothing"
		if err != nil {
			got = err.Error()
		} else if k != nil {
			switch s := k.store.(type) {
			case *Memory:
				got = "memory"
			case *Redis:
				got = s.section + " " + s.prefix
			}
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
