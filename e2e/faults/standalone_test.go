package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

func address(addr string) string { return redisWithMaps(`"address": ["` + addr + `"]`) }

// TestRedisProcess: one Redis is killed, stopped, and loses its data.
func TestRedisProcess(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{Persistent: true})
	s := cluster(t, address(redis.Addr()))
	stop := func(d time.Duration) func(t *testing.T) {
		return func(t *testing.T) {
			redis.Stop()
			time.Sleep(d)
			redis.Continue()
		}
	}
	expose(t, s, clients, fault{
		name: "killed, with data", always: true, failing: true, unfit: redis.Addr(),
		inject: func(t *testing.T) {
			redis.Kill()
			allUnfit(s)
			redis.Restart(false)
		},
	}, fault{
		name: "killed, back at once", always: true,
		inject: func(t *testing.T) { redis.Restart(false) },
	}, fault{
		name: "stopped 3s", inject: stop(3 * time.Second),
	}, fault{
		name: "stopped 10s", failing: true, unfit: redis.Addr(), inject: stop(10 * time.Second),
	}, fault{
		name: "stopped until noticed", always: true, failing: true, unfit: redis.Addr(),
		inject: func(t *testing.T) {
			redis.Stop()
			allUnfit(s)
			redis.Continue()
		},
	}, fault{
		name: "killed, empty", always: true, failing: true, told: true, unfit: redis.Addr(),
		inject: func(t *testing.T) {
			redis.Kill()
			allUnfit(s)
			redis.Restart(true)
		},
	}, fault{
		name: "emptied within a moment", told: true,
		inject: func(t *testing.T) { redis.Restart(true) },
	}, fault{
		name: "FLUSHALL", told: true, quiet: true,
		inject: func(t *testing.T) { redis.Do("FLUSHALL") },
	})
}

// TestNetwork: the network to one Redis goes silent, breaks connections, or discards bytes.
func TestNetwork(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	proxy, err := rig.NewProxy(redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	s := cluster(t, address(proxy.Addr()))
	silent := func(d time.Duration) func(t *testing.T) {
		return func(t *testing.T) {
			proxy.Freeze()
			time.Sleep(d)
			proxy.Resume()
		}
	}
	broken := func(d time.Duration) func(t *testing.T) {
		return func(t *testing.T) {
			proxy.Down()
			time.Sleep(d)
			proxy.Up()
		}
	}
	faults := []fault{
		{name: "silent 1s", always: true, quiet: true, inject: silent(time.Second)},
		{name: "silent 10s", failing: true, unfit: proxy.Addr(), inject: silent(10 * time.Second)},
		{name: "reset 1s", always: true, failing: true, inject: broken(time.Second)},
		{name: "reset 10s", failing: true, unfit: proxy.Addr(), inject: broken(10 * time.Second)},
		{name: "half-open", always: true, failing: true, unfit: proxy.Addr(), inject: func(t *testing.T) {
			proxy.Mute()
			allUnfit(s)
		}},
	}
	if *longestCut > 10*time.Second {
		faults = append(faults,
			fault{name: "silent " + longestCut.String(), failing: true, unfit: proxy.Addr(), inject: silent(*longestCut)},
			fault{name: "reset " + longestCut.String(), failing: true, unfit: proxy.Addr(), inject: broken(*longestCut)})
	}
	expose(t, s, clients, faults...)
}

// TestRedisRefuses: one Redis runs, but refuses commands.
func TestRedisRefuses(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{Args: []string{"--enable-debug-command", "yes"}})
	s := cluster(t, address(redis.Addr()))
	expose(t, s, clients, fault{
		name: "CLIENT KILL of PUB/SUB", always: true, quiet: true, silence: 2 * time.Second,
		inject: func(t *testing.T) { redis.Do("CLIENT", "KILL", "TYPE", "pubsub") },
	}, fault{
		name: "CLIENT KILL of PUB/SUB, 20 times", quiet: true,
		inject: func(t *testing.T) {
			for range 20 {
				redis.Do("CLIENT", "KILL", "TYPE", "pubsub")
				time.Sleep(100 * time.Millisecond)
			}
		},
	}, fault{
		name: "CLIENT KILL of all", always: true,
		inject: func(t *testing.T) {
			redis.Do("CLIENT", "KILL", "TYPE", "normal")
			redis.Do("CLIENT", "KILL", "TYPE", "pubsub")
		},
	}, fault{
		name: "SCRIPT FLUSH", always: true, quiet: true, silence: time.Second,
		inject: func(t *testing.T) { redis.Do("SCRIPT", "FLUSH"); s.Flow() },
	}, fault{
		name: "slow, 1s", always: true, quiet: true,
		inject: func(t *testing.T) { redis.Do("DEBUG", "SLEEP", "1") },
	}, fault{
		name: "slow, 8s", failing: true, unfit: redis.Addr(),
		inject: func(t *testing.T) { redis.Do("DEBUG", "SLEEP", "8") },
	}, fault{
		name: "restarted with older data", always: true, told: true,
		inject: func(t *testing.T) {
			redis.Do("SAVE")
			s.Flow()
			redis.Restart(false)
		},
	}, fault{
		name: "OOM", always: true, failing: true, unfit: "OOM",
		inject: func(t *testing.T) {
			redis.Do("CONFIG", "SET", "maxmemory", "1mb")
			s.Failing("error 100")
			allUnfit(s)
			redis.Do("CONFIG", "SET", "maxmemory", "0")
		},
	}, fault{
		name: "READONLY", always: true, failing: true, unfit: "READONLY",
		inject: func(t *testing.T) {
			redis.Do("REPLICAOF", "127.0.0.1", "1")
			s.Failing("error 100")
			allUnfit(s)
			redis.Do("REPLICAOF", "NO", "ONE")
		},
	})
}

// TestStart: a node that cannot use its Redis ends and says why, without secrets.
func TestStart(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse"
	redis := redistest.Standalone(t, redistest.Options{Password: secret})
	nobody := porttest.Address(t)
	for name, test := range map[string]struct {
		engine string
		want   []string
	}{
		"refused":         {address(nobody), []string{nobody, "refused"}},
		"wrong password":  {redisEngine(`"address": ["redis://:battery-staple@` + redis.Addr() + `"]`), []string{redis.Addr(), "WRONGPASS"}},
		"no password":     {address(redis.Addr()), []string{redis.Addr(), "NOAUTH"}},
		"wrong database":  {redisEngine(`"password": "` + secret + `", "db": 99, "address": ["` + redis.Addr() + `"]`), []string{redis.Addr(), "DB index is out of range"}},
		"no such cluster": {redisEngine(`"cluster_address": ["` + nobody + `"]`), []string{nobody}},
		"no Sentinel": {redisEngine(`"sentinel_master_name": "main", "sentinel_address": ["` + nobody + `"]`),
			[]string{nobody}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := launch(t, config(test.engine))
			select {
			case <-node.Exited():
			case <-time.After(wait.Limit):
				t.Fatalf("the node goes on:\n%s", node.Log())
			}
			log := node.Log()
			for _, want := range test.want {
				if !strings.Contains(log, want) {
					t.Errorf("the log does not say %q:\n%s", want, log)
				}
			}
			for _, password := range []string{secret, "battery-staple"} {
				if strings.Contains(log, password) {
					t.Errorf("the log shows the password:\n%s", log)
				}
			}
		})
	}
}
