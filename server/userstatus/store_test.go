package userstatus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Lingering()...) }

// redisOf returns a store in servers that were started for the test.
func redisOf(t *testing.T, expire time.Duration, shards ...redis.Shard) *Redis {
	return NewRedis("user_status.redis", "address", shards, "test", expire)
}

// TestStores: all stores do the same.
func TestStores(t *testing.T) {
	t.Run("memory", func(t *testing.T) { t.Parallel(); conform(t, NewMemory(time.Hour), NewMemory(time.Second)) })
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		s := redistest.Standalone(t, redistest.Options{})
		shard := redis.Shard{Addresses: []string{s.Addr()}, Password: s.Password()}
		conform(t, redisOf(t, time.Hour, shard), redisOf(t, time.Second, shard))
	})
	t.Run("two shards", func(t *testing.T) {
		t.Parallel()
		var shards []redis.Shard
		for range 2 {
			s := redistest.Standalone(t, redistest.Options{})
			shards = append(shards, redis.Shard{Addresses: []string{s.Addr()}, Password: s.Password()})
		}
		conform(t, redisOf(t, time.Hour, shards...), redisOf(t, time.Second, shards...))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.NewCluster(t, redistest.Options{})
		shard := redis.Shard{Mode: redis.Cluster, Addresses: c.Addresses(), Password: c.Nodes[0].Password()}
		conform(t, redisOf(t, time.Hour, shard), redisOf(t, time.Second, shard))
	})
}

// conform checks a store, and how one with a short interval forgets.
func conform(t *testing.T, s, brief Store) {
	ctx := t.Context()
	for _, store := range []Store{s, brief} {
		if err := store.Start(ctx); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
	}
	update := func(later Status, users ...string) {
		t.Helper()
		if err := s.Update(ctx, users, later); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want ...Status) func(users ...string) {
		return func(users ...string) {
			t.Helper()
			got, err := s.Get(ctx, users)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: %+v, %v, want %+v", users, got, err, want)
			}
		}
	}
	want(Status{}, Status{})("ann", "bob")
	update(Status{Active: 100}, "ann")
	want(Status{Active: 100}, Status{})("ann", "bob")
	update(Status{Online: 90}, "ann", "bob", "ann")
	want(Status{Active: 100, Online: 90}, Status{Online: 90}, Status{Active: 100, Online: 90})("ann", "bob", "ann")
	update(Status{Active: 50, Online: 200}, "ann") // another node, whose clock is slow
	want(Status{Active: 100, Online: 200})("ann")
	update(Status{Active: 101, State: "on holiday"}, "ann")
	update(Status{Active: 102}, "ann")
	want(Status{Active: 102, Online: 200, State: "on holiday"})("ann")
	update(Status{State: "back"}, "ann")
	want(Status{Active: 102, Online: 200, State: "back"})("ann")

	odd := []string{"{a}", "{", "}{", "a b\n", "ä\x00", strings.Repeat("x", MaxUser), "*"}
	for i, user := range odd {
		update(Status{Active: int64(i + 1)}, user)
	}
	for i, user := range odd {
		want(Status{Active: int64(i + 1)})(user)
	}
	if err := s.Delete(ctx, append(odd, "ann", "nobody")); err != nil {
		t.Fatal(err)
	}
	for _, user := range odd {
		want(Status{})(user)
	}
	want(Status{}, Status{Online: 90})("ann", "bob")

	many := make([]string, MaxUsers)
	for i := range many {
		many[i] = fmt.Sprint("user", i)
	}
	update(Status{Online: 7}, many...)
	got, err := s.Get(ctx, many)
	if err != nil || slices.ContainsFunc(got, func(s Status) bool { return s != Status{Online: 7} }) {
		t.Errorf("%d users: %v", len(many), err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if _, memory := s.(*Memory); !memory {
		if err := s.Update(ended, many, Status{Online: 8}); err == nil {
			t.Error("no error after the end of the context")
		}
	}

	// The second is over when the status is gone; it must not be gone at once.
	if err := brief.Update(ctx, []string{"brief"}, Status{Active: 5, State: "x"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		got, err := brief.Get(ctx, []string{"brief"})
		if err != nil {
			t.Fatal(err)
		}
		if got[0] == (Status{}) {
			break
		}
		if got[0] != (Status{Active: 5, State: "x"}) || time.Now().After(deadline) {
			t.Fatalf("%+v", got)
		}
	}
	if err := brief.Update(ctx, []string{"brief"}, Status{Online: 6}); err != nil {
		t.Fatal(err)
	}
	if got, _ := brief.Get(ctx, []string{"brief"}); got[0].Active != 0 || got[0].State != "" {
		t.Errorf("what had expired is back: %+v", got)
	}
}

// TestMemoryBound: memory forgets what has expired, and has a limit.
func TestMemoryBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(time.Hour)
		m.most = 10
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		size := func() (n int) {
			for i := range m.stripes {
				s := &m.stripes[i]
				s.mu.Lock()
				n += len(s.m)
				s.mu.Unlock()
			}
			return n
		}
		for i := range 5_000 {
			if err := m.Update(t.Context(), []string{fmt.Sprint(i)}, Status{Active: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if n := size(); n > stripes*10 || n < stripes*8 {
			t.Errorf("%d users are kept", n)
		}
		if got, _ := m.Get(t.Context(), []string{"4999"}); got[0].Active != 1 {
			t.Error("the latest user is forgotten")
		}
		time.Sleep(time.Hour + stripes*sweepEach + time.Second)
		synctest.Wait()
		if n := size(); n != 0 {
			t.Errorf("%d users are kept after they have expired", n)
		}
	})
}

// TestRedisKeys: what is in Redis is what the documentation says.
func TestRedisKeys(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := redisOf(t, 30*24*time.Hour, redis.Shard{Addresses: []string{server.Addr()}, Password: server.Password()})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Update(t.Context(), []string{"ann"}, Status{Active: 5, Online: 6, State: "x"}); err != nil {
		t.Fatal(err)
	}
	if got := server.Do("HMGET", "test.user_status.ann", "active", "online", "state"); !strings.Contains(got, "5") || !strings.Contains(got, "6") || !strings.Contains(got, "x") {
		t.Errorf("the hash has %q", got)
	}
	if got := server.Do("TTL", "test.user_status.ann"); got != "2592000" && got != "2591999" {
		t.Errorf("the key expires in %s s", got)
	}
	if err := s.Update(t.Context(), []string{"bob"}, Status{}); err != nil {
		t.Fatal(err)
	}
	if got := server.Do("EXISTS", "test.user_status.bob"); got != "0" {
		t.Error("nothing makes a key")
	}
}

// TestRedisAway: errors name the section. A server that is there within start_timeout is found.
func TestRedisAway(t *testing.T) {
	s := redisOf(t, time.Hour, redis.Shard{Addresses: []string{"127.0.0.1:1"}})
	if err := s.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "user_status.redis.address: ") {
		t.Errorf("without a server: %v", err)
	}
	if err := s.Update(t.Context(), []string{"ann"}, Status{Active: 1}); err == nil {
		t.Error("no error before it is connected")
	}
	server := redistest.Standalone(t, redistest.Options{})
	late := redisOf(t, time.Hour, redis.Shard{Addresses: []string{server.Addr()}, Password: server.Password()})
	late.patience = time.Minute
	server.Kill()
	started := make(chan error, 1)
	go func() { started <- late.Start(t.Context()) }()
	server.Restart(true)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if err := late.Update(t.Context(), []string{"ann"}, Status{Active: 1}); err != nil {
		t.Error(err)
	}
	late.Close()
	if _, err := late.Get(t.Context(), []string{"ann"}); err == nil {
		t.Error("no error after Close")
	}
}
