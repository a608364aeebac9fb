package userstatus

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Lingering()...) }

// redisOf returns a store in servers that were started for the test.
func redisOf(t *testing.T, expire time.Duration, shards ...redis.Shard) *Redis {
	return NewRedis("user_status.redis", "address", shards, "test", expire)
}

// TestStores: all stores do the same.
func TestStores(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { conform(t, NewMemory(time.Hour), func(string) { time.Sleep(time.Hour) }) })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		s := redistest.Standalone(t, redistest.Options{})
		conform(t, redisOf(t, time.Hour, shardOf(s)), func(user string) { expire(t, s, user) })
	})
	t.Run("two shards", func(t *testing.T) {
		t.Parallel()
		servers := []*redistest.Server{redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{})}
		conform(t, redisOf(t, time.Hour, shardOf(servers[0]), shardOf(servers[1])), func(user string) {
			for _, s := range servers {
				if s.Do("EXISTS", keyOf(user)) == "1" {
					expire(t, s, user)
				}
			}
		})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.NewCluster(t, redistest.Options{})
		shard := shardOf(c.Nodes[0])
		shard.Mode, shard.Addresses = redis.Cluster, c.Addresses()
		conform(t, redisOf(t, time.Hour, shard), func(user string) { expire(t, c.Nodes[c.Owner(c.Slot(keyOf(user)))], user) })
	})
}

func shardOf(s *redistest.Server) redis.Shard {
	return redis.Shard{Addresses: []string{s.Addr()}, Password: s.Password(), ConnectTimeout: wait.Limit, IOTimeout: wait.Limit}
}

func keyOf(user string) string { return "test.user_status." + user }

// expire has the hour of a user pass, of which there has to be some rest: Redis keeps the time.
func expire(t *testing.T, s *redistest.Server, user string) {
	t.Helper()
	if rest, err := strconv.Atoi(s.Do("PTTL", keyOf(user))); err != nil || rest <= 0 || rest > 3_600_000 {
		t.Errorf("%s expires in %d ms: %v", user, rest, err)
	}
	s.Do("PEXPIRE", keyOf(user), "0")
}

// conform checks a store that keeps what was updated for an hour, and how it forgets when the hour of a user has passed.
func conform(t *testing.T, s Store, pass func(user string)) {
	ctx := t.Context()
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
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

	update(Status{Active: 5, State: "x"}, "brief")
	want(Status{Active: 5, State: "x"})("brief")
	pass("brief")
	want(Status{})("brief")
	update(Status{Online: 6}, "brief")
	want(Status{Online: 6})("brief") // what had expired does not come back
}

// TestMemoryBound: memory forgets what has expired, and has a limit.
func TestMemoryBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(time.Hour)
		m.limit = 10
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
		time.Sleep(time.Hour + stripes*expireEach + time.Second)
		synctest.Wait()
		if n := size(); n != 0 {
			t.Errorf("%d users are kept after they have expired", n)
		}
	})
}

// TestRedisKeys: what is in Redis is what the documentation says.
func TestRedisKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := redisOf(t, 30*24*time.Hour, shardOf(server))
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begun := time.Now()
	if err := s.Update(t.Context(), []string{"ann"}, Status{Active: 5, Online: 6, State: "x"}); err != nil {
		t.Fatal(err)
	}
	if got := server.Do("HMGET", "test.user_status.ann", "active", "online", "state"); !strings.Contains(got, "5") || !strings.Contains(got, "6") || !strings.Contains(got, "x") {
		t.Errorf("the hash has %q", got)
	}
	const kept = 30 * 24 * 60 * 60
	ttl, err := strconv.Atoi(server.Do("TTL", "test.user_status.ann"))
	if least := kept - 1 - int(time.Since(begun)/time.Second); err != nil || ttl > kept || ttl < least {
		t.Errorf("the key expires in %d s, want %d to %d: %v", ttl, least, kept, err)
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
	t.Parallel()
	s := redisOf(t, time.Hour, redis.Shard{Addresses: []string{"127.0.0.1:1"}})
	if err := s.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "user_status.redis.address: ") {
		t.Errorf("without a server: %v", err)
	}
	if err := s.Update(t.Context(), []string{"ann"}, Status{Active: 1}); err == nil {
		t.Error("no error before it is connected")
	}
	server := redistest.Standalone(t, redistest.Options{})
	late := redisOf(t, time.Hour, shardOf(server))
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
