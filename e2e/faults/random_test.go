package faults

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/internal/stand"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

var (
	firstSeed = flag.Uint64("seed", 0, "first seed of TestRandom; 0: the few that continuous integration has")
	rounds    = flag.Int("rounds", 1, "how many seeds of TestRandom in a row, with -seed")
	steps     = flag.Int("steps", 5, "faults in a schedule of TestRandom")
	only      = flag.String("only", "", "numbers of the steps of TestRandom's schedules that happen, as 1,4; all by default")
)

type world struct {
	name  string
	seeds []uint64
	// loses: streams may be lost by themselves, as Sentinels, and a Cluster, fail over when a primary is slow on a busy
	// machine.
	loses bool
	start func(t *testing.T, nodes int) (*stand.Stand, []mishap)
}

// TestRandom: through random schedules of faults, acknowledged publications are delivered, acknowledged commands are
// executed on other nodes, and presence of clients that left ends.
func TestRandom(t *testing.T) {
	t.Parallel()
	for _, w := range []world{
		{"redis", []uint64{1, 2, 3}, false, redisWorld},
		{"sentinel", []uint64{1}, true, sentinelWorld},
		{"cluster", []uint64{1}, false, clusterWorld},
		{"failover", []uint64{1}, true, failoverWorld},
		{"nats", []uint64{1}, false, natsWorld},
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			seeds := w.seeds
			if *firstSeed > 0 {
				seeds = nil
				for i := range *rounds {
					seeds = append(seeds, *firstSeed+uint64(i))
				}
			}
			for _, seed := range seeds {
				t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
					t.Parallel()
					w.round(t, seed)
				})
			}
		})
	}
}

func (w *world) round(t *testing.T, seed uint64) {
	nodes := 2 + int(seed%2)
	s, mishaps := w.start(t, nodes)
	plan := chosen(t, schedule(seed, mishaps, nodes, *steps))
	again := fmt.Sprintf("go test ./e2e/faults -v -run TestRandom/%s -seed %d -steps %d", w.name, seed, *steps)
	t.Log(again)
	defer func() {
		if t.Failed() {
			t.Logf("%s\n%d nodes\n%s", again, nodes, lines(plan))
		}
	}()
	s.Begin()
	play(t, plan)
	outcome := s.End()
	span := s.Recovered()
	span.Back = outcome.Back
	table.add(t.Name(), span)
	w.judge(t, plan, span, outcome)
}

func chosen(t *testing.T, plan []*step) []*step {
	if *only == "" {
		return plan
	}
	var list []*step
	for _, text := range strings.Split(*only, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > len(plan) {
			t.Fatalf("-only %s: %q is no step", *only, text)
		}
		list = append(list, plan[n-1])
	}
	return list
}

func (w *world) judge(t *testing.T, plan []*step, span stand.Span, v stand.Outcome) {
	f := fault{mayMiss: w.loses || slices.ContainsFunc(plan, func(s *step) bool { return s.loses })}
	for i := range span.Health { // the other tests limit how long an answer may take
		span.Health[i].Hung = 0
	}
	span.Answers.Hung = 0
	f.judge(t, span, clients)
	for what, wrong := range map[string][]string{
		"publications": span.Evidence, "commands": v.Wrong, "presence": v.Presence, "histories": v.Streams,
	} {
		if len(wrong) > 0 {
			t.Errorf("%d wrong %s:\n\t%s", len(wrong), what, strings.Join(wrong[:min(len(wrong), 10)], "\n\t"))
		}
	}
	t.Logf("commands: %d acknowledged, %d failed, %d carried out, %d void; %d guests; publishers: %v",
		v.Acknowledged, v.Failed, v.Done, v.Void, v.Stays, span.Answers)
	if v.Done == 0 || v.Stays == 0 || span.Received == 0 {
		t.Error("nothing happened")
	}
}

// presenceTTL is longer than any test, so that no wrong entry can expire. Clients are renewed every renewal.
const (
	presenceTTL = "300s"
	renewal     = "2s"
)

func randomStand(t *testing.T, opts stand.Options, engine string, namespaces ...string) *stand.Stand {
	t.Helper()
	namespaces = append(namespaces, plain, `{"name": "room", "presence": true,
		"allow_subscribe_for_client": true, "allow_subscribe_for_anonymous": true}`)
	// Pings must not end the connections of a suspended node.
	opts.Config = strings.Replace(configured(engine, strings.Join(namespaces, ", ")), `"ping_interval": "3s", "pong_timeout": "2s"`,
		`"ping_interval": "25s", "pong_timeout": "20s", "presence_update_interval": "`+renewal+`",
		"token": {"hmac_secret_key": "`+rig.TokenSecret+`"}`, 1)
	opts.Subscribers, opts.SDKs, opts.Channels = 30, 4, randomStreams
	opts.Every, opts.AnswerLimit = 50*time.Millisecond, answerLimit
	opts.Mixed, opts.Guests, opts.Commanders = true, 8, 10
	return stand.New(t, opts)
}

func patched() string {
	return strings.Replace(streams("300s"), `"force_recovery"`, `"allowed_delta_types": ["fossil"], "delta_publish": true, "force_recovery"`, 1)
}

// randomEngine has a long TTL of presence entries. Nodes can start while it is away.
func randomEngine(keys string) string {
	return redisEngine(`"start_timeout": "30s", "presence_ttl": "` + presenceTTL + `", ` + keys)
}

type proxies []*rig.Proxy

func newProxies(t *testing.T, nodes int, addr string) (list proxies) {
	t.Helper()
	for range nodes {
		p, err := rig.NewProxy(addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		list = append(list, p)
	}
	return list
}

func (p proxies) mishaps() []mishap {
	one := func(do func(*rig.Proxy)) func(*testing.T, int) {
		return func(_ *testing.T, i int) { do(p[i]) }
	}
	all := func(do func(*rig.Proxy)) func(*testing.T, int) {
		return func(*testing.T, int) {
			for _, proxy := range p {
				do(proxy)
			}
		}
	}
	var list []mishap
	for _, m := range []struct {
		name       string
		longest    time.Duration
		begin, end func(*rig.Proxy)
	}{
		{"resets connections", 100 * time.Millisecond, (*rig.Proxy).Cut, func(*rig.Proxy) {}},
		{"resets and refuses connections", 6 * time.Second, (*rig.Proxy).Down, (*rig.Proxy).Up},
		{"goes silent", 8 * time.Second, (*rig.Proxy).Freeze, (*rig.Proxy).Resume},
		{"loses what the connections of now carry", 100 * time.Millisecond, (*rig.Proxy).Mute, func(*rig.Proxy) {}},
		{"delays everything by 200ms", 4 * time.Second, func(p *rig.Proxy) { p.Delay(200 * time.Millisecond) }, func(p *rig.Proxy) { p.Delay(0) }},
	} {
		list = append(list,
			mishap{name: "the net of node %d " + m.name, on: "net", each: true, longest: m.longest, begin: one(m.begin), end: one(m.end)},
			mishap{name: "the net of all nodes " + m.name, on: "net", longest: m.longest, begin: all(m.begin), end: all(m.end)})
	}
	return list
}

func nodeMishaps(s *stand.Stand) []mishap {
	return []mishap{
		{name: "node %d is suspended", on: "node", each: true, shortest: 300 * time.Millisecond, longest: 10 * time.Second,
			begin: func(_ *testing.T, i int) { s.Nodes[i].Pause() }, end: func(_ *testing.T, i int) { s.Nodes[i].Resume() }},
		{name: "node %d is killed", on: "node", each: true, longest: 3 * time.Second,
			begin: func(_ *testing.T, i int) { s.KillNode(i) }, end: func(_ *testing.T, i int) { s.Launch(i) }},
		{name: "the SDKs' connections are reset", on: "node", longest: 100 * time.Millisecond,
			begin: func(*testing.T, int) { s.CutSDKs() }},
	}
}

func redisWorld(t *testing.T, nodes int) (*stand.Stand, []mishap) {
	redis := redistest.Standalone(t, redistest.Options{Args: []string{
		"--enable-debug-command", "yes", "--shutdown-on-sigterm", "save", "--repl-diskless-sync-delay", "0"}})
	proxies := newProxies(t, nodes, redis.Addr())
	s := randomStand(t, stand.Options{Nodes: nodes, Namespace: "stream", Env: func(i int) []string {
		return []string{"GYRO_ENGINE_REDIS_ADDRESS=" + proxies[i].Addr()}
	}}, randomEngine(`"address": ["`+redis.Addr()+`"]`), patched())
	redis.Do("SAVE")
	return s, slices.Concat(nodeMishaps(s), proxies.mishaps(), processMishaps(s, redis), refusals(redis), staleCopy(s, redis))
}

// processMishaps: the process keeps its data when it is told.
func processMishaps(s *stand.Stand, redis *redistest.Server) []mishap {
	const long = 5 * time.Second
	return []mishap{
		{name: "Redis is suspended", on: "redis", longest: 7 * time.Second,
			begin: func(*testing.T, int) { redis.Stop() }, end: func(*testing.T, int) { redis.Continue() }},
		{name: "Redis is shut down and keeps its data", on: "redis", longest: long,
			begin: func(*testing.T, int) { redis.Shutdown() }, end: func(*testing.T, int) { redis.Restart(false) }},
		{name: "Redis is killed and comes back empty", on: "redis", longest: long, loses: true,
			begin: func(*testing.T, int) { redis.Kill() }, end: func(*testing.T, int) { redis.Restart(true) }},
		{name: "Redis is killed and comes back with what it saved last", on: "redis", longest: long, loses: true,
			begin: func(*testing.T, int) { redis.Kill() }, end: func(*testing.T, int) { redis.Restart(false); s.WentBack() }},
		{name: "Redis goes back to the data of the beginning of this, by a restart", on: "redis", longest: long, loses: true,
			begin: func(*testing.T, int) { redis.Do("SAVE") }, end: func(*testing.T, int) { redis.Restart(false); s.WentBack() }},
		{name: "Redis goes back to the data of the beginning of this, without a restart", on: "redis", longest: long, loses: true,
			begin: func(*testing.T, int) { redis.Do("SAVE") }, end: func(*testing.T, int) { redis.Do("DEBUG", "RELOAD", "NOSAVE"); s.WentBack() }},
	}
}

func refusals(redis *redistest.Server) []mishap {
	do := func(command ...string) func(*testing.T, int) { return func(*testing.T, int) { redis.Do(command...) } }
	const long, short = 4 * time.Second, 100 * time.Millisecond
	return []mishap{
		{name: "CLIENT KILL of PUB/SUB", on: "redis", longest: short, begin: do("CLIENT", "KILL", "TYPE", "pubsub")},
		{name: "CLIENT KILL of commands", on: "redis", longest: short, begin: do("CLIENT", "KILL", "TYPE", "normal")},
		{name: "SCRIPT FLUSH", on: "redis", longest: short, begin: do("SCRIPT", "FLUSH")},
		{name: "FLUSHALL", on: "redis", longest: short, loses: true, begin: do("FLUSHALL")},
		{name: "out of memory", on: "redis", longest: long,
			begin: do("CONFIG", "SET", "maxmemory", "1mb"), end: do("CONFIG", "SET", "maxmemory", "0")},
		{name: "read-only", on: "redis", longest: long, begin: do("REPLICAOF", "127.0.0.1", "1"), end: do("REPLICAOF", "NO", "ONE")},
		{name: "PUBLISH refused", on: "redis", longest: long,
			begin: do("ACL", "SETUSER", "default", "-publish", "-spublish"), end: do("ACL", "SETUSER", "default", "+publish", "+spublish")},
	}
}

// staleCopy makes a Redis replicate an old copy of its own data.
func staleCopy(s *stand.Stand, redis *redistest.Server) []mishap {
	var copied *redistest.Server
	return []mishap{{
		name: "Redis goes back to a copy of the beginning of this, by replication", on: "redis", longest: 4 * time.Second, loses: true,
		begin: func(t *testing.T, _ int) {
			copied = redistest.Standalone(t, redistest.Options{Args: []string{"--repl-diskless-sync-delay", "0"}})
			follow(t, copied, redis)
			copied.Do("REPLICAOF", "NO", "ONE")
		},
		end: func(t *testing.T, _ int) {
			follow(t, redis, copied)
			redis.Do("REPLICAOF", "NO", "ONE")
			s.WentBack()
			copied.Kill()
		},
	}}
}

func sentinelWorld(t *testing.T, nodes int) (*stand.Stand, []mishap) {
	redis := redistest.NewSentinel(t, redistest.Options{Persistent: true, Failover: true, Args: []string{"--repl-diskless-sync-delay", "0"}})
	s := randomStand(t, stand.Options{Nodes: nodes, Namespace: "stream"}, randomEngine(fmt.Sprintf(
		`"sentinel_address": [%q], "sentinel_master_name": %q`, strings.Join(redis.Addresses(), ","), redis.Master)), patched())
	for _, sentinel := range redis.Sentinels { // none may take a slow primary on a busy machine for a dead one
		sentinel.Do("SENTINEL", "SET", redis.Master, "down-after-milliseconds", "2000")
	}
	var dead, alive *redistest.Server
	replica := func() *redistest.Server {
		return redis.Servers[1-slices.Index(redis.Servers, redis.Primary())]
	}
	var before int
	return s, append(nodeMishaps(s), mishap{
		// There is no failover by command: the old primary would acknowledge writes that it neither keeps nor delivers.
		name: "the primary is killed, the replica takes over", on: "redis", longest: 2 * time.Second, loses: true,
		begin: func(*testing.T, int) { dead = redis.Primary(); before = listeners(dead); dead.Kill() },
		end: func(t *testing.T, _ int) {
			alive = redis.Await(dead)
			dead.Restart(false)
			s.WentBack() // Redis acknowledges before it replicates
			follow(t, dead, alive)
			awaitListeners(alive, before)
		},
	}, mishap{
		name: "the replica is killed", on: "redis", longest: 2 * time.Second,
		begin: func(*testing.T, int) { alive, dead = redis.Primary(), replica(); dead.Kill() },
		end: func(t *testing.T, _ int) {
			dead.Restart(false)
			follow(t, dead, alive)
		},
	}, mishap{
		name: "CLIENT KILL of PUB/SUB", on: "redis", longest: 100 * time.Millisecond,
		begin: func(*testing.T, int) { redis.Primary().Do("CLIENT", "KILL", "TYPE", "pubsub") },
	})
}

// awaitListeners waits until the streams of a new primary have as many listeners as before. If it is killed sooner, and
// had not replicated what it acknowledged last, no node knows of that. A suspended node is not waited for: it goes on
// after this.
func awaitListeners(primary *redistest.Server, before int) {
	const suspended = 5 * time.Second
	wait.Within(suspended, func() bool { return listeners(primary) >= before })
}

func listeners(server *redistest.Server) (sum int) {
	args := []string{"PUBSUB", "NUMSUB"}
	for i := range randomStreams {
		args = append(args, fmt.Sprintf("centrifugo.client.stream:%d", i))
	}
	for i, text := range strings.Fields(server.Do(args...)) {
		if n, err := strconv.Atoi(text); err == nil && i%2 == 1 { // behind the name
			sum += n
		}
	}
	return sum
}

const randomStreams = 4

func clusterWorld(t *testing.T, nodes int) (*stand.Stand, []mishap) {
	redis := redistest.NewCluster(t, redistest.Options{Persistent: true, Failover: true})
	s := randomStand(t, stand.Options{Nodes: nodes, Namespace: "stream"}, randomEngine(fmt.Sprintf(
		`"cluster_address": [%q]`, strings.Join(redis.Addresses(), ","))), patched())
	return s, append(nodeMishaps(s), mishap{
		name: "primary %d is killed and comes back with its data", on: "redis", longest: 5 * time.Second,
		begin: func(_ *testing.T, i int) { redis.Nodes[i].Kill() },
		end:   func(_ *testing.T, i int) { redis.Nodes[i].Restart(false); redis.Await() },
	}, mishap{
		name: "primary %d is suspended", on: "redis", longest: 5 * time.Second,
		begin: func(_ *testing.T, i int) { redis.Nodes[i].Stop() },
		end:   func(_ *testing.T, i int) { redis.Nodes[i].Continue(); redis.Await() },
	}, mishap{
		name: "slots move", longest: 100 * time.Millisecond,
		begin: func(*testing.T, int) {
			for i := range 4 {
				slot := redis.Slot(fmt.Sprintf("{stream:%d}", i))
				redis.MoveSlot(slot, (redis.Owner(slot)+1)%len(redis.Nodes))
			}
		},
	})
}

func failoverWorld(t *testing.T, nodes int) (*stand.Stand, []mishap) {
	redis := redistest.NewCluster(t, redistest.Options{Persistent: true, Failover: true, Args: []string{"--repl-diskless-sync-delay", "0"}})
	replicas := addReplicas(t, redis)
	s := randomStand(t, stand.Options{Nodes: nodes, Namespace: "stream"}, randomEngine(fmt.Sprintf(
		`"cluster_address": [%q]`, strings.Join(redis.Addresses(), ","))), patched())
	var dead, next *redistest.Server
	return s, append(nodeMishaps(s), mishap{
		name: "primary of shard %d is killed, its replica takes over", on: "redis", longest: 2 * time.Second, loses: true,
		begin: func(_ *testing.T, i int) {
			dead, next = redis.Nodes[i], replicas[i]
			if strings.HasPrefix(next.Do("ROLE"), "master") {
				dead, next = next, dead
			}
			dead.Kill()
		},
		end: func(t *testing.T, _ int) {
			wait.Until(t, "the replica's promotion", func() bool { return strings.HasPrefix(next.Do("ROLE"), "master") })
			s.WentBack() // Redis acknowledges before it replicates
			dead.Restart(false)
			wait.Until(t, "the old primary's replication of the new one", func() bool {
				return strings.Contains(dead.Do("INFO", "replication"), "master_link_status:up")
			})
		},
	})
}

func natsWorld(t *testing.T, nodes int) (*stand.Stand, []mishap) {
	n := startNATS(t)
	proxies := newProxies(t, nodes, n.addr())
	redis := redistest.Standalone(t, redistest.Options{Args: []string{"--shutdown-on-sigterm", "save"}})
	s := randomStand(t, stand.Options{Nodes: nodes, Namespace: "plain", AtMostOnce: true, Env: func(i int) []string {
		return []string{"GYRO_BROKER_NATS_URL=nats://" + proxies[i].Addr()}
	}}, `"broker": {"enabled": true, "type": "nats", "nats": {"url": "nats://`+n.addr()+`"}},
		"presence_manager": {"enabled": true, "type": "redis", "redis": {"io_timeout": "`+ioTimeout.String()+`",
			"start_timeout": "30s", "presence_ttl": "`+presenceTTL+`", "address": ["`+redis.Addr()+`"]}}`)
	return s, slices.Concat(nodeMishaps(s)[:1], proxies.mishaps(), []mishap{{
		name: "NATS is away", on: "nats", longest: 5 * time.Second,
		begin: func(*testing.T, int) { n.stop() }, end: func(*testing.T, int) { n.start() },
	}, {
		// On all things, because a node does not start without NATS.
		name: "node %d is killed", each: true, longest: 3 * time.Second,
		begin: func(_ *testing.T, i int) { s.KillNode(i) }, end: func(_ *testing.T, i int) { s.Restart(i) },
	}, {
		name: "Redis is shut down and keeps its data", on: "redis", longest: 5 * time.Second,
		begin: func(*testing.T, int) { redis.Shutdown() }, end: func(*testing.T, int) { redis.Restart(false) },
	}})
}
