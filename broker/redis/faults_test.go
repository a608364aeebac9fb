package redis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/need"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

var keep = broker.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute}

func publish(b *redis.Broker, ch string) error {
	_, err := b.Publish(context.Background(), ch, &channel.Publication{Data: []byte("1")}, keep)
	return err
}

// TestRefused has Run fail, with an error that says why and holds no secret.
func TestRefused(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{Password: "right"})
	defer goleak.VerifyNone(t, redistest.Lingering(goleak.IgnoreCurrent())...)
	nobody := porttest.Address(t)
	cases := map[string]redis.Config{
		"refused":   {Shards: []redis.Shard{{Addresses: []string{nobody}, Mode: redis.Standalone}}},
		nobody:      {Shards: []redis.Shard{{Addresses: []string{nobody}, Mode: redis.Cluster}}},
		"sentinel":  {Shards: []redis.Shard{{Addresses: []string{nobody}, SentinelMaster: "main"}}},
		"WRONGPASS": {Shards: []redis.Shard{{Addresses: []string{server.Addr()}, Password: "wr0ng"}}, StartTimeout: 2 * wait.Limit},
		"NOAUTH":    {Shards: []redis.Shard{{Addresses: []string{server.Addr()}}}, StartTimeout: 2 * wait.Limit},
		"DB index":  {Shards: []redis.Shard{{Addresses: []string{server.Addr()}, Password: "right", DB: 99}}, StartTimeout: 2 * wait.Limit},
		"Cluster":   {Shards: []redis.Shard{standalone(server)}, ShardedPubSubPartitions: 2},
	}
	if server.Do("COMMAND", "INFO", "HPEXPIRE") == "" { // older than Redis 7.4
		cases["HPEXPIRE"] = redis.Config{Shards: []redis.Shard{standalone(server)}, PresenceHashFieldTTL: true, StartTimeout: 2 * wait.Limit}
	}
	for mention, cfg := range cases {
		cfg.Logger = quiet
		b := newEngine(t, cfg).Broker()
		start := time.Now()
		err := b.Run(newNote())
		if err == nil || !strings.Contains(err.Error(), mention) || strings.Contains(err.Error(), "wr0ng") || strings.Contains(err.Error(), "right") {
			t.Errorf("%s: %v", mention, err)
		}
		if !strings.Contains(fmt.Sprint(err), "redis shard 0 (") {
			t.Errorf("%s: no shard in %v", mention, err)
		}
		if took := time.Since(start); took > wait.Limit {
			t.Errorf("%s: Run took %v", mention, took)
		}
		if _, err := b.Publish(t.Context(), "ch", &channel.Publication{}, keep); err == nil {
			t.Errorf("%s: publish works", mention)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Errorf("%s: Close: %v", mention, err)
		}
	}
}

// TestStartTimeout has Run wait for a Redis that comes later.
func TestStartTimeout(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	server.Kill()
	b := newEngine(t, redis.Config{Shards: []redis.Shard{standalone(server)}, StartTimeout: time.Minute, Logger: quiet}).Broker()
	ran := make(chan error, 1)
	go func() { ran <- b.Run(newNote()) }()
	server.Restart(true)
	if err := receive(t, ran); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestStartAgain: a server that restarts while the connection for PUB/SUB is made does not
// end the start within StartTimeout.
func TestStartAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	shard := standalone(server)
	shard.Addresses = []string{cutFirst(t, server.Addr(), "subscribe", func() {
		server.Kill()
		server.Restart(true)
	})}
	b := newEngine(t, redis.Config{Shards: []redis.Shard{shard}, StartTimeout: time.Minute, Logger: quiet}).Broker()
	if err := b.Run(newNote()); err != nil {
		t.Fatal(err)
	}
	if err := b.Subscribe(t.Context(), "ch"); err != nil {
		t.Error(err)
	}
	if _, err := b.History(t.Context(), "ch", broker.HistoryFilter{}); err != nil {
		t.Error(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// cutFirst passes connections on to a server, but calls instead, and ends the connection,
// when a client sends the word for the first time.
func cutFirst(t *testing.T, server, word string, instead func()) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { listener.Close(); running.Wait() })
	var cut atomic.Bool
	pass := func(client net.Conn) {
		defer client.Close()
		redis, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer redis.Close()
		running.Go(func() { io.Copy(client, redis); client.Close() })
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			if bytes.Contains(bytes.ToLower(buf[:n]), []byte(word)) && cut.CompareAndSwap(false, true) {
				instead()
				return
			}
			redis.Write(buf[:n])
		}
	}
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { pass(client) })
		}
	})
	return listener.Addr().String()
}

// TestErrors looks at what publishers get to know.
func TestErrors(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	engine := newEngine(t, redis.Config{Shards: []redis.Shard{standalone(server)}, Logger: quiet})
	b := engine.Broker().(*redis.Broker)
	if err := b.Run(newNote()); err != nil {
		t.Fatal(err)
	}
	defer b.Close(t.Context())
	wants := func(mention string) {
		t.Helper()
		batch := []broker.BatchItem{{Channel: "ch", Pub: &channel.Publication{}, Options: keep}}
		b.PublishBatch(t.Context(), batch)
		_, historyErr := b.History(t.Context(), "new", broker.HistoryFilter{})
		for what, err := range map[string]error{"publish": publish(b, "ch"), "batch": batch[0].Err, "history": historyErr} {
			if err == nil || !strings.Contains(err.Error(), mention) || !strings.Contains(err.Error(), "redis shard 0 ("+server.Addr()) {
				t.Errorf("%s: %v, want %s and the shard", what, err, mention)
			}
		}
	}
	server.Do("CONFIG", "SET", "maxmemory", "1")
	wants("OOM") // by a stream that has to be made
	server.Do("CONFIG", "SET", "maxmemory", "0")
	if err := publish(b, "ch"); err != nil {
		t.Error(err)
	}
	server.Do("CONFIG", "SET", "maxmemory", "1")
	wants("OOM")
	server.Do("CONFIG", "SET", "maxmemory", "0")

	server.Do("SCRIPT", "FLUSH")
	if err := publish(b, "ch"); err != nil {
		t.Errorf("after SCRIPT FLUSH: %v", err)
	}
	server.Do("SCRIPT", "FLUSH")
	batch := make([]broker.BatchItem, 3000)
	for i := range batch {
		batch[i] = broker.BatchItem{Channel: "batch", Pub: &channel.Publication{}, Options: keep}
	}
	b.PublishBatch(t.Context(), batch)
	for i := range batch {
		if batch[i].Err != nil || batch[i].Result.Position.Offset != uint64(i+1) {
			t.Fatalf("item %d after SCRIPT FLUSH: %+v, %v", i, batch[i].Result, batch[i].Err)
		}
	}

	server.Do("REPLICAOF", "127.0.0.1", "1")
	wants("READONLY")
	server.Do("REPLICAOF", "NO", "ONE")
	if err := publish(b, "ch"); err != nil {
		t.Errorf("after READONLY: %v", err)
	}

	if err := publish(b, "wrong"); err != nil {
		t.Error(err)
	}
	server.Do("SET", "gyro.stream.wrong", "a string")
	if err := publish(b, "wrong"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a key of another type: %v", err)
	}
}

// TestStopped: a Redis that takes commands and answers none must not hold up
// anybody for longer than IOTimeout, and everything works again when it goes on.
func TestStopped(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	shard := standalone(server)
	shard.IOTimeout = time.Second
	n := newNote()
	b := runBroker(t, redis.Config{Shards: []redis.Shard{shard}, Logger: quiet,
		CanaryInterval: 100 * time.Millisecond, CanaryTimeout: time.Second}, n)
	if err := b.Subscribe(t.Context(), "ch"); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	const callers = 6000 // more than calls may be in flight
	took := make(chan time.Duration, callers)
	for range callers {
		go func() {
			start := time.Now()
			if publish(b, "ch") == nil {
				t.Error("published to a stopped Redis")
			}
			took <- time.Since(start)
		}()
	}
	for range callers {
		if d := receive(t, took); d > wait.Limit {
			t.Fatalf("a publisher waited for %v", d)
		}
	}
	awaitHealth(t, b, false)
	server.Continue()
	awaitHealth(t, b, true)
	if match := receive(t, n.losses); !match("ch") {
		t.Error("the loss does not match the channel")
	}
	for len(n.events) > 0 { // of the publishers that gave up, perhaps
		<-n.events
	}
	wait.Until(t, "a publish succeeds", func() bool { return publish(b, "ch") == nil })
	receive(t, n.events)
}

// TestStoppedIsTheReason: neither publishers, nor health, nor the log name as the reason that this process closes connections to servers
// which take commands and answer none.
func TestStoppedIsTheReason(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T) (redis.Shard, []*redistest.Server){
		"one server": func(t *testing.T) (redis.Shard, []*redistest.Server) {
			server := redistest.Standalone(t, redistest.Options{})
			return standalone(server), []*redistest.Server{server}
		},
		"Sentinels": func(t *testing.T) (redis.Shard, []*redistest.Server) {
			s := redistest.NewSentinel(t, redistest.Options{})
			return redis.Shard{Addresses: s.Addresses(), SentinelMaster: s.Master}, append(s.Sentinels, s.Servers...)
		},
		"a Cluster": func(t *testing.T) (redis.Shard, []*redistest.Server) {
			c := redistest.NewCluster(t, redistest.Options{})
			return redis.Shard{Addresses: c.Addresses(), Mode: redis.Cluster}, c.Nodes
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shard, servers := begin(t)
			shard.IOTimeout = time.Second
			var log logged
			b := newEngine(t, redis.Config{Shards: []redis.Shard{shard}, Logger: slog.New(slog.NewTextHandler(&log, nil)), StartTimeout: wait.Limit,
				CanaryInterval: 100 * time.Millisecond, CanaryTimeout: time.Second}).Broker().(*redis.Broker)
			if err := b.Run(newNote()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close(context.Background()) })
			for _, server := range servers {
				server.Stop()
			}
			var publishers sync.WaitGroup
			for i := range 200 { // some wait for an answer, others for a connection
				publishers.Go(func() {
					for range 5 {
						if err := publish(b, fmt.Sprint("ch", i)); err != nil && strings.Contains(err.Error(), "closed") {
							t.Errorf("a publisher is told: %v", err)
						}
					}
				})
			}
			wait.Until(t, "the health of a connection that cannot be made", func() bool {
				err := b.Health()[0].Err
				if err != nil && strings.Contains(err.Error(), "closed") {
					t.Errorf("health: %v", err)
				}
				return err != nil && strings.Contains(err.Error(), "connect: ")
			})
			publishers.Wait()
			if text := log.String(); !strings.Contains(text, "cannot be reached") || strings.Contains(text, "closed") {
				t.Errorf("the log: %s", text)
			}
		})
	}
}

// awaitHealth waits until the first shard is well, or is not.
func awaitHealth(t testing.TB, b *redis.Broker, well bool) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("the shard is well: %v", well), func() bool { return (b.Health()[0].Err == nil) == well })
}

// TestRestart: Redis dies and comes back empty. Subscriptions are restored, loss is
// told, and streams have new epochs.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	n := newNote()
	b := runBroker(t, redis.Config{Shards: []redis.Shard{standalone(server)}, Logger: quiet,
		CanaryInterval: 100 * time.Millisecond, CanaryTimeout: time.Second}, n)
	if err := b.Subscribe(t.Context(), "ch"); err != nil {
		t.Fatal(err)
	}
	first, err := b.Publish(t.Context(), "ch", &channel.Publication{}, keep)
	if err != nil {
		t.Fatal(err)
	}
	receive(t, n.events)
	server.Kill()
	awaitHealth(t, b, false)
	if err := publish(b, "ch"); err == nil {
		t.Error("published to a dead Redis")
	}
	if err := b.Subscribe(t.Context(), "other"); err == nil {
		t.Error("subscribed at a dead Redis")
	}
	server.Restart(true)
	if match := receive(t, n.losses); !match("ch") {
		t.Error("the loss does not match the channel")
	}
	// The first word of a loss comes before anything is subscribed again.
	awaitHealth(t, b, true)
	wait.Until(t, "a publish succeeds", func() bool { return publish(b, "ch") == nil })
	if e := receive(t, n.events); e.Pub.Offset != 1 || e.Epoch == first.Position.Epoch {
		t.Errorf("%+v in epoch %s after one in epoch %s", e.Pub, e.Epoch, first.Position.Epoch)
	}
}

// TestReplicaTakesOver: as soon as the other nodes of a Cluster know of the new primary,
// commands go there, though rueidis may not know of it yet.
func TestReplicaTakesOver(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, redistest.Options{})
	slot := c.Slot("{ch}")
	first := c.Nodes[c.Owner(slot)]
	second := c.AddReplica(first)
	b := runBroker(t, redis.Config{Shards: []redis.Shard{{Addresses: c.Addresses(), Mode: redis.Cluster}}, Logger: quiet}, newNote())
	for range 2 {
		if err := publish(b, "ch"); err != nil {
			t.Fatal(err)
		}
		first.Kill()
		second.Do("CLUSTER", "FAILOVER", "TAKEOVER")
		id := second.Do("CLUSTER", "MYID")
		for _, node := range c.Nodes {
			if node != first {
				wait.Until(t, "the nodes know their new owner", func() bool {
					return strings.Contains(node.Do("CLUSTER", "NODES"), id+" "+second.Addr()) &&
						!strings.Contains(lineWith(node.Do("CLUSTER", "NODES"), id), "slave")
				})
			}
		}
		for i := range 20 {
			// The first one may have been sent on the connection that has ended.
			if err := publish(b, "ch"); err != nil && i > 0 {
				t.Fatalf("publish %d: %v", i, err)
			}
		}
		batch := []broker.BatchItem{{Channel: "ch", Pub: &channel.Publication{}, Options: keep}, {Channel: "ch", Pub: &channel.Publication{}, Options: keep}}
		b.PublishBatch(t.Context(), batch)
		if err := errors.Join(batch[0].Err, batch[1].Err); err != nil || batch[1].Result.Position.Offset != batch[0].Result.Position.Offset+1 {
			t.Fatalf("batch: %v, %+v", err, batch)
		}
		// The other way round.
		first.Restart(false)
		wait.Until(t, "the old primary replicates the new one", func() bool { return strings.Contains(first.Do("INFO", "replication"), "master_link_status:up") })
		for i, node := range c.Nodes {
			if node == first {
				c.Nodes[i] = second
			}
		}
		first, second = second, first
	}
}

func lineWith(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return line
		}
	}
	return ""
}

// TestLossOfOneShard: the other shard's channels are not concerned.
func TestLossOfOneShard(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{})}
	n := newNote()
	b := runBroker(t, redis.Config{Shards: []redis.Shard{standalone(servers[0]), standalone(servers[1])}, Logger: quiet}, n)
	where := map[int]string{}
	for i := 0; len(where) < 2; i++ {
		ch := fmt.Sprint("ch", i)
		if err := publish(b, ch); err != nil {
			t.Fatal(err)
		}
		for at, server := range servers {
			if server.Do("EXISTS", "gyro.stream."+ch) == "1" {
				where[at] = ch
			}
		}
	}
	servers[1].Restart(true)
	match := receive(t, n.losses)
	if match(where[0]) || !match(where[1]) {
		t.Errorf("the loss matches %v in the shard that stayed, %v in the one that went", match(where[0]), match(where[1]))
	}
	if health := b.Health(); len(health) != 2 || !strings.Contains(health[1].Part, servers[1].Addr()) {
		t.Errorf("health %+v", health)
	}
}

// logged is a log as text.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestHealthOfPrimary: with Sentinels, health names the server that does not deliver.
func TestHealthOfPrimary(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.Options{}) // without a replica that could become the primary
	b := runBroker(t, redis.Config{Shards: []redis.Shard{{Addresses: s.Addresses(), SentinelMaster: s.Master}}, Logger: quiet}, newNote())
	awaitHealth(t, b, true)
	primary := s.Primary()
	primary.Kill()
	awaitHealth(t, b, false)
	if err := b.Health()[0].Err; err == nil || !strings.HasPrefix(err.Error(), "primary "+primary.Addr()+": ") {
		t.Errorf("health %v, want primary %s", err, primary.Addr())
	}
}

// TestFailover: the primary dies, the Sentinels choose another, and everything goes
// on there.
func TestFailover(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.Options{Failover: true})
	n := newNote()
	var log logged
	b := runBroker(t, redis.Config{Shards: []redis.Shard{{Addresses: s.Addresses(), SentinelMaster: s.Master}}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		CanaryInterval: 100 * time.Millisecond, CanaryTimeout: time.Second}, n)
	if err := b.Subscribe(t.Context(), "ch"); err != nil {
		t.Fatal(err)
	}
	if err := publish(b, "ch"); err != nil {
		t.Fatal(err)
	}
	receive(t, n.events)
	old := s.Primary()
	old.Kill()
	start := time.Now()
	if err := publish(b, "ch"); err == nil { // the first dial goes to the dead one
		t.Error("published to a dead primary")
	}
	s.Await(old)
	if match := receive(t, n.losses); !match("ch") {
		t.Error("the loss does not match the channel")
	}
	wait.Until(t, "a publish succeeds", func() bool { return publish(b, "ch") == nil })
	receive(t, n.events)
	awaitHealth(t, b, true)
	t.Logf("well again %v after the death of the primary", time.Since(start))
	again := `msg="redis can be reached again" primary=` + s.Primary().Addr()
	wait.Until(t, again, func() bool { return publish(b, "ch") == nil && strings.Contains(log.String(), again) })

	// Back, and swapped by command: the demoted one stays alive.
	old.Restart(true)
	// A Sentinel that finds the machine too busy does nothing for 30 s, and may then have made the
	// old one the primary again.
	if !wait.Within(3*time.Minute, func() bool {
		primary := s.Primary()
		return primary != nil && strings.Contains(primary.Do("INFO", "replication"), "state=online")
	}) {
		t.Fatal("there is no primary with a replica")
	}
	s.Failover()
	wait.Until(t, "a publish succeeds", func() bool { return publish(b, "ch") == nil })
	awaitHealth(t, b, true)
}

// TestMovedSlot migrates a channel's slot while it is published to.
func TestMovedSlot(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, redistest.Options{})
	for _, partitions := range []int{0, 3} {
		t.Run(fmt.Sprint(partitions, " partitions"), func(t *testing.T) {
			if partitions > 0 && c.Nodes[0].Do("COMMAND", "INFO", "SPUBLISH") == "" {
				t.Skip(need.Line("a redis-server that knows SPUBLISH", "set GYRO_REDIS_SERVER to a later version"))
			}
			n := newNote()
			cfg := redis.Config{Shards: []redis.Shard{{Addresses: c.Addresses()}}, Logger: quiet, Prefix: fmt.Sprint("p", partitions),
				ShardedPubSubPartitions: partitions, CanaryInterval: 100 * time.Millisecond, CanaryTimeout: time.Second}
			b := runBroker(t, cfg, n)
			if err := b.Subscribe(t.Context(), "ch"); err != nil {
				t.Fatal(err)
			}
			if err := publish(b, "ch"); err != nil {
				t.Fatal(err)
			}
			receive(t, n.events)
			key := "{ch}"
			if partitions > 0 {
				for _, node := range c.Nodes {
					if keys := node.Do("KEYS", cfg.Prefix+".stream.meta.*"); keys != "" {
						key = keys
					}
				}
			}
			slot := c.Slot(key)
			published, stop := make(chan error, 1), make(chan struct{})
			go func() {
				var failed error
				for {
					select {
					case <-stop:
						published <- failed
						return
					default:
						_, err := b.Publish(context.Background(), "ch", &channel.Publication{}, broker.PublishOptions{HistorySize: 1000, HistoryTTL: time.Minute})
						failed = errors.Join(failed, err)
						time.Sleep(time.Millisecond) // the rate of the load
					}
				}
			}()
			c.MoveSlot(slot, (c.Owner(slot)+1)%len(c.Nodes))
			close(stop)
			if err := receive(t, published); err != nil {
				// A script that meets a key in the midst of its move is told to try again.
				t.Logf("errors during the migration: %v", err)
			}
			wait.Until(t, "a publication is delivered", func() bool {
				for len(n.events) > 0 {
					<-n.events
				}
				return publish(b, "ch") == nil && func() bool {
					select {
					case <-n.events:
						return true
					case <-time.After(100 * time.Millisecond):
						return false
					}
				}()
			})
			if n := metric(b, "pub_sub_errors", "subscribe_shard_channel"); (n >= 0) != (partitions > 0) {
				t.Errorf("%v errors", n)
			}
		})
	}
}

// TestConnections counts them: few, whatever the number of callers.
func TestConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	b := runBroker(t, redis.Config{Shards: []redis.Shard{standalone(server)}, Logger: quiet}, newNote())
	done := make(chan error, 500)
	for i := range 500 {
		go func() {
			ch := fmt.Sprint("ch", i)
			done <- errors.Join(b.Subscribe(t.Context(), ch), publish(b, ch))
		}()
	}
	for range 500 {
		if err := receive(t, done); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(server.Do("CLIENT", "LIST", "TYPE", "normal"), "\n") - 1; n != 1 { // but for the asking one
		t.Errorf("%d connections for commands", n)
	}
	if n := strings.Count(server.Do("CLIENT", "LIST", "TYPE", "pubsub"), "\n"); n != 1 {
		t.Errorf("%d connections for PUB/SUB", n)
	}
}

// TestControl sends control messages among three nodes on two shards, one of which
// dies.
func TestControl(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{})}
	cfg := redis.Config{Shards: []redis.Shard{standalone(servers[0]), standalone(servers[1])}, Logger: quiet}
	heard := make([]chan string, 3)
	nodes := make([]*redis.Broker, 3)
	for i := range nodes {
		heard[i] = make(chan string, 100)
		nodes[i] = newBroker(t, cfg)
		if err := nodes[i].RunControl(fmt.Sprint("node", i), func(data []byte) { heard[i] <- string(data) }); err != nil {
			t.Fatal(err)
		}
		if err := nodes[i].RunControl("again", nil); err == nil {
			t.Error("RunControl twice")
		}
		if err := nodes[i].Run(newNote()); err != nil {
			t.Fatal(err)
		}
		defer nodes[i].Close(t.Context())
	}
	if err := nodes[0].RunControl("late", nil); err == nil {
		t.Error("RunControl after Run")
	}
	send := func(text string) {
		t.Helper()
		if err := nodes[0].PublishControl(t.Context(), "", []byte(text)); err != nil {
			t.Fatal(err)
		}
		for i := range heard {
			if got := receive(t, heard[i]); got != text {
				t.Fatalf("node %d heard %q, want %q", i, got, text)
			}
		}
	}
	for i := range 6 {
		send(fmt.Sprint("all", i))
	}
	if err := nodes[0].PublishControl(t.Context(), "node2", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, heard[2]); got != "one" {
		t.Errorf("node2 heard %q", got)
	}
	servers[1].Kill()
	for i := range 6 {
		send(fmt.Sprint("survivor", i))
	}
	wait.Until(t, "an error of a PUB/SUB connection", func() bool { return metric(nodes[0], "pub_sub_errors", "connection") > 0 })
	health := nodes[0].Health()
	if well, ill := health[0], health[1]; well.Err != nil || well.Reconnects != 0 || well.Delay == 0 || ill.Err == nil {
		t.Errorf("%+v", health)
	}
	for _, name := range []string{"pub_sub_buffered_messages", "pub_sub_dropped_messages"} {
		if n := metric(nodes[0], name, "control"); n != 0 {
			t.Errorf("%s of control messages: %v", name, n)
		}
	}
	for i := range heard {
		if len(heard[i]) > 0 {
			t.Errorf("node %d heard more: %q", i, <-heard[i])
		}
	}
}

// TestSkipPubSub keeps history and delivers nothing.
func TestSkipPubSub(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	b := runBroker(t, redis.Config{Shards: []redis.Shard{standalone(server)}, SkipPubSub: true}, newNote())
	if err := b.Subscribe(t.Context(), "ch"); err == nil {
		t.Error("subscribed without PUB/SUB")
	}
	if err := publish(b, "ch"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Publish(t.Context(), "ch", &channel.Publication{}, broker.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	h, err := b.History(t.Context(), "ch", broker.HistoryFilter{Limit: -1})
	if err != nil || len(h.Publications) != 1 {
		t.Errorf("history %+v, %v", h, err)
	}
}

// TestControlOnce: a shard that turns ill while it has a control message does not get it again.
func TestControlOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	start := func(node string, timeout time.Duration, handle func([]byte)) (*redis.Broker, broker.Controller) {
		shard := standalone(server)
		shard.IOTimeout = time.Second
		b := newEngine(t, redis.Config{Shards: []redis.Shard{shard}, Logger: quiet, CanaryInterval: 100 * time.Millisecond, CanaryTimeout: timeout}).Broker()
		c := b.Describe().Control
		if err := errors.Join(c.RunControl(node, handle), b.Run(newNote())); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(context.Background()) })
		return b.(*redis.Broker), c
	}
	heard := make(chan string, 100)
	start("receiver", time.Minute, func(data []byte) { heard <- string(data) })
	b, sender := start("sender", 300*time.Millisecond, func([]byte) {})
	awaitHealth(t, b, true)
	server.Stop()
	again := time.AfterFunc(1500*time.Millisecond, server.Continue) // during the second try, if there is one
	defer again.Stop()
	_ = sender.PublishControl(t.Context(), "receiver", []byte("once")) // which cannot know whether it was sent
	wait.Until(t, "a control message is sent", func() bool { return sender.PublishControl(t.Context(), "receiver", []byte("end")) == nil })
	times := 0
	for text := receive(t, heard); text != "end"; text = receive(t, heard) {
		times++
	}
	if times > 1 {
		t.Errorf("heard %d times", times)
	}
}

// Who sends to a node that has no connection to any shard is told so.
func TestControlWithoutReceiver(t *testing.T) {
	t.Parallel()
	shards := []redis.Shard{standalone(redistest.Standalone(t, redistest.Options{})), standalone(redistest.Standalone(t, redistest.Options{}))}
	var nodes [2]*redis.Broker
	heard := make(chan string, 100)
	for i := range nodes {
		nodes[i] = newBroker(t, redis.Config{Shards: shards})
		if err := nodes[i].RunControl(fmt.Sprint("node", i), func(data []byte) { heard <- string(data) }); err != nil {
			t.Fatal(err)
		}
		if err := nodes[i].Run(newNote()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nodes[i].Close(context.Background()) })
	}
	for _, text := range []string{"by one shard", "by the other"} {
		if err := nodes[0].PublishControl(t.Context(), "node1", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := wait.Receive(t, "a message", heard); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if err := nodes[1].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the end of the connections", func() bool {
		return errors.Is(nodes[0].PublishControl(t.Context(), "node1", []byte("to nobody")), broker.ErrNoReceiver)
	})
	if err := nodes[0].PublishControl(t.Context(), "", []byte("to all")); err != nil {
		t.Error(err)
	}
}

// TestStoresNothing: Redis delivers, and refuses what a publication with history writes. Health says so, and that it is
// over.
func TestStoresNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		begin, end [][]string
		reason     string
	}{
		"full": {
			[][]string{{"CONFIG", "SET", "maxmemory", "1"}}, [][]string{{"CONFIG", "SET", "maxmemory", "0"}}, "OOM",
		},
		"read-only": {
			[][]string{{"REPLICAOF", "127.0.0.1", "1"}}, [][]string{{"REPLICAOF", "NO", "ONE"}}, "READONLY",
		},
		"too few replicas": {
			[][]string{{"CONFIG", "SET", "min-replicas-to-write", "1"}}, [][]string{{"CONFIG", "SET", "min-replicas-to-write", "0"}}, "NOREPLICAS",
		},
		"permission": {
			[][]string{{"ACL", "SETUSER", "default", "-xadd", "-lpush"}}, [][]string{{"ACL", "SETUSER", "default", "+@all"}}, "can't run this command",
		},
	} {
		for _, lists := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lists %v", name, lists), func(t *testing.T) {
				t.Parallel()
				server := redistest.Standalone(t, redistest.Options{})
				b := newBroker(t, redis.Config{
					Shards: []redis.Shard{standalone(server)}, HistoryUseLists: lists, CanaryInterval: 20 * time.Millisecond, Logger: quiet,
				})
				n := newNote()
				if err := b.Run(n); err != nil {
					t.Fatal(err)
				}
				defer b.Close(context.Background())
				do := func(commands [][]string) {
					for _, c := range commands {
						server.Do(c...)
					}
				}
				do(test.begin)
				if err := publish(b, "ch"); err == nil || !strings.Contains(err.Error(), test.reason) {
					t.Fatalf("a publication with history: %v", err)
				}
				health := func() error { return b.Health()[0].Err }
				wait.Until(t, "the reason", func() bool {
					err := health()
					return err != nil && strings.Contains(err.Error(), test.reason)
				})
				do(test.end)
				wait.Until(t, "health", func() bool { return health() == nil })
				wait.Success(t, "a publication with history", func() error { return publish(b, "ch") })
				if ttl := server.Do("EVAL", "local longest = 0; for _, key in ipairs(redis.call('KEYS', '*.sample.*')) do longest = math.max(longest, redis.call('PTTL', key)) end; return longest", "0"); ttl == "0" || len(ttl) > 5 {
					t.Errorf("the longest life of a sample is %s ms", ttl)
				}
			})
		}
	}
}

// TestStoresNothingForPresence: a node that keeps presence alone sees that Redis is full.
func TestStoresNothingForPresence(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	engine := newEngine(t, redis.Config{Shards: []redis.Shard{standalone(server)}, CanaryInterval: 20 * time.Millisecond, Logger: quiet})
	b := engine.Broker().(*redis.Broker)
	if err := b.Run(newNote()); err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	if err := engine.Presence().Add(t.Context(), "ch", &channel.ClientInfo{Client: "c"}); err != nil {
		t.Fatal(err)
	}
	server.Do("CONFIG", "SET", "maxmemory", "1")
	wait.Until(t, "the reason", func() bool {
		err := b.Health()[0].Err
		return err != nil && strings.Contains(err.Error(), "OOM")
	})
}
