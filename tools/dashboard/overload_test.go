package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// heavySize is how many bytes a message has that a client does not read.
const heavySize = 60_000

// overloaded: a node gets more than it can deliver, and has a client that does not read and is not disconnected.
func overloaded(t *testing.T, c *cluster) {
	m := c.start(target{Cluster: "production", Instance: "c"}, "gyro", config{"client": config{
		"allow_anonymous_connect_without_token": true, "queue_max_size": 1 << 30, "ping_interval": "10m", // nobody answers pings
	}})
	idle := c.look(m)
	more := c.hung(m)
	t.Run("Slow", func(t *testing.T) { c.on(t).slow(m) })
	t.Run("Memory", func(t *testing.T) { c.on(t).tight(m, more) })
	t.Run("Old", func(t *testing.T) {
		c := c.on(t)
		const oldest = "gyro_client_queue_oldest_seconds"
		if !wait.Within(2*time.Minute, func() bool { return m.value(oldest) > 60 }) {
			t.Fatalf("the oldest byte has waited for %v s", m.value(oldest))
		}
		c.shows(func(f *film) { f.still(idle, quiet) }, func(f *film) { f.still(c.look(m), 6*time.Minute) }, "GyroOldBytes")
	})
}

// on returns the cluster for another test.
func (c *cluster) on(t *testing.T) *cluster {
	other := *c
	other.T = t
	return &other
}

// shows expects that alerts fire in the second part of a film, and not in the first one.
func (c *cluster) shows(first, second func(*film), alerts ...string) {
	c.Helper()
	f := newFilm(c.T, time.Now())
	first(f)
	begin := f.now
	second(f)
	fired := f.alerts()
	for _, name := range alerts {
		switch times := fired[name]; {
		case len(times) == 0:
			c.Errorf("%s does not fire", name)
		case times[0] <= begin:
			c.Errorf("%s fires %v before it should", name, begin-times[0])
		default:
			c.Logf("%s fires after %v", name, times[0]-begin)
		}
	}
}

// hung connects a client that does not read to a node, and returns a function that sends n more messages to the client.
func (c *cluster) hung(m *member) (more func(n int)) {
	c.Helper()
	gate := new(sync.RWMutex)
	cl := c.connectTo(m, sdk.Options{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return gated{conn, gate}, err
	}})
	if err := subscribe(c, cl, "load:heavy", nil); err != nil {
		c.Fatal(err)
	}
	gate.Lock()
	c.Cleanup(gate.Unlock)
	data := strings.Repeat("x", heavySize)
	more = func(n int) {
		c.api("broadcast", config{"channels": slices.Repeat([]string{"load:heavy"}, n), "data": data})
	}
	wait.Until(c.T, "bytes that wait", func() bool {
		more(20) // the kernel takes some
		return m.value("gyro_client_queued_bytes") > 0
	})
	return more
}

// crowdOf connects clients to a node that get everything in a channel and do not look at it.
func (c *cluster) crowdOf(n int, m *member, channel string) {
	c.Helper()
	for range n {
		blind := new(atomic.Bool)
		cl := c.connectTo(m, sdk.Options{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return drained{conn, blind}, err
		}})
		if err := subscribe(c, cl, channel, nil); err != nil {
			c.Fatal(err)
		}
		blind.Store(true)
	}
}

// drained is a connection whose bytes are thrown away once it is blind.
type drained struct {
	net.Conn
	blind *atomic.Bool
}

// Read implements net.Conn.
func (d drained) Read(p []byte) (n int, err error) {
	for {
		if n, err = d.Conn.Read(p); err != nil || !d.blind.Load() {
			return n, err
		}
	}
}

// signal sends a signal to the process of a node. If it has ended, what the test waits for will not come.
func (m *member) signal(s syscall.Signal) { _ = m.cmd.Process.Signal(s) }

// slowed gives a node a small part of a processor: it stands most of the time, until resume is called.
func (m *member) slowed() (resume func()) {
	const run, stand = 5 * time.Millisecond, 600 * time.Millisecond
	end := make(chan struct{})
	var going sync.WaitGroup
	going.Go(func() {
		defer m.signal(syscall.SIGCONT)
		for signal, next := syscall.SIGSTOP, syscall.SIGCONT; ; signal, next = next, signal {
			m.signal(signal)
			pause := run
			if signal == syscall.SIGSTOP {
				pause = stand
			}
			select {
			case <-time.After(pause):
			case <-end:
				return
			}
		}
	})
	return func() {
		close(end)
		going.Wait()
	}
}

// slow: more comes from Redis than a node with little CPU can deliver. What it takes costs it much more to deliver than to receive.
func (c *cluster) slow(m *member) {
	c.redis.Do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0") // what waits in Redis is no reason to end the connection
	c.crowdOf(20, m, "load:x")                                                // without history: who has no position keeps its subscription
	const dropped = "gyro_broker_redis_pub_sub_dropped_messages"
	channels, data := slices.Repeat([]string{"load:x"}, 600), strings.Repeat("x", 8192)
	var before, with look
	if !wait.Within(5*time.Minute, func() bool { // many attempts: what the node can deliver depends on the machine
		before = c.look(m)
		had := before[m.target]
		resume := m.slowed()
		defer resume()
		together(10, func(int) { c.api("broadcast", config{"channels": channels, "data": data}) })
		return wait.Within(25*time.Second, func() bool {
			with = c.look(m) // later, when the node is not slowed, most are fast
			text := with[m.target]
			all, slow := late(text)
			allBefore, slowBefore := late(had)
			return sum(text, dropped) > sum(had, dropped) && slow-slowBefore > 0.02*(all-allBefore)
		})
	}) {
		c.Fatal("no messages are dropped while others take long")
	}
	c.shows(func(f *film) { f.still(before, quiet) }, func(f *film) { f.goesOn(before, with, 11*time.Minute) }, "GyroMessagesDropped", "GyroBroadcastSlow")
}

// late returns how many broadcasts a node has counted, and how many of them took more than half a second.
func late(scrape string) (all, slow float64) {
	const broadcasts = "gyro_node_broadcast_duration_seconds_"
	all = sum(scrape, broadcasts+"count")
	slow = all
	for _, line := range lines(scrape, broadcasts+"bucket") {
		if strings.Contains(line, `le="0.5"`) {
			slow -= sum(line, "")
		}
	}
	return all, slow
}

// tight: a node has nearly all memory of its control group, of which more and more waits for a client.
func (c *cluster) tight(m *member, more func(n int)) {
	const resident, queued = "process_resident_memory_bytes", "gyro_client_queued_bytes"
	before := c.look(m)
	limit := m.group(c.T)
	var looks []look
	for range 4 {
		least := m.value(queued) + 1
		wait.Until(c.T, "little memory that is left", func() bool {
			const none = 1 << 40
			text := m.scrape()
			if had := sum(text, queued); had < max(least, 0.12*sum(text, resident)) {
				more(100)
				wait.Within(2*time.Second, func() bool { return m.value(queued) > had+99*heavySize })
				return false
			}
			// The node is at rest while there is a limit, or it might grow beyond it, and the system would kill it.
			limit(1.07 * sum(text, resident))
			defer limit(none)
			l := c.look(m)
			text = l[m.target]
			most := sum(text, "gyro_node_memory_limit_bytes")
			if sum(text, queued) <= 0.1*most || sum(text, resident) <= 0.9*most {
				return false
			}
			looks = append(looks, l)
			return true
		})
	}
	c.shows(func(f *film) { f.still(before, quiet) }, func(f *film) {
		for _, l := range looks {
			f.still(l, 2*time.Minute)
		}
	}, "GyroMemory", "GyroQueuesGrow")
}

// group puts the process of a node into a control group of its own until the test ends, and returns what limits its memory. The test is
// skipped if the system does not let it make one.
func (m *member) group(t *testing.T) (limit func(bytes float64)) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip("there are no control groups:", err)
	}
	parent, file := "", ""
	for line := range strings.Lines(string(own)) {
		switch parts := strings.SplitN(strings.TrimSpace(line), ":", 3); {
		case len(parts) < 3:
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			parent, file = filepath.Join("/sys/fs/cgroup/memory", parts[2]), "memory.limit_in_bytes"
		case parts[1] == "" && file == "":
			parent, file = filepath.Join("/sys/fs/cgroup", parts[2]), "memory.max"
		}
	}
	pid := strconv.Itoa(m.cmd.Process.Pid)
	group := filepath.Join(parent, "gyro-test-"+pid)
	write := func(path, text string) error { return os.WriteFile(path, []byte(text), 0) }
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip("the system does not let the test make a control group:", err)
	}
	t.Cleanup(func() {
		if err := write(filepath.Join(parent, "cgroup.procs"), pid); err != nil {
			m.kill()
		}
		wait.Success(t, "the end of the group", func() error { return os.Remove(group) })
	})
	if _, err := os.Stat(filepath.Join(group, file)); err != nil {
		t.Skip("the groups of the system do not limit memory:", err)
	}
	if err := write(filepath.Join(group, "cgroup.procs"), pid); err != nil {
		t.Skip("the system does not let the test use a control group:", err)
	}
	return func(bytes float64) {
		if err := write(filepath.Join(group, file), fmt.Sprintf("%.0f", bytes)); err != nil {
			t.Log(err) // the node uses more than that yet
		}
	}
}
