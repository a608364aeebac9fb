//go:build unix

package websocket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// crowd is a server whose peers hold next to nothing, so that what a connection costs
// is what the transport takes for it.
type crowd struct {
	t        *testing.T
	server   *httptest.Server
	loop     *loop.Loop // nil for goroutines
	accepted atomic.Int64
	received atomic.Int64
	heard    chan struct{} // gets something for every message; nil: not needed
	over     atomic.Int64
	idle     map[string]bool // descriptors of the process without clients

	mu      sync.Mutex
	members []*member // that are connected
	causes  map[string]int
}

// member is a peer of a crowd.
type member struct {
	crowd *crowd
	conn  transport.Conn
	index int
}

func newCrowd(t *testing.T, cfg Config) *crowd {
	c := &crowd{t: t, causes: make(map[string]int)}
	if onLoops && poll.Supported() {
		c.loop = loop.New()
		go c.loop.Run()
		t.Cleanup(c.loop.Close)
	}
	h := NewHandler(c, cfg)
	c.server = httptest.NewUnstartedServer(h)
	c.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.server.Config.ReadHeaderTimeout = time.Minute
	if direct {
		c.server.Listener = front.Listen(c.server.Listener, c.server.Config, c, h.Route("/"))
	}
	c.server.Start()
	t.Cleanup(c.server.Close)
	c.open("/").reset() // what there is with the first connection is there from now on
	wait.Until(t, "the connection ends", func() bool { return c.over.Load() == 1 })
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.causes)
	c.accepted.Store(0)
	c.over.Store(0)
	c.idle = descriptors(t)
	return c
}

func (c *crowd) Accept(_ context.Context, conn transport.Conn, _ transport.Info) (transport.Peer, error) {
	m := &member{crowd: c, conn: conn}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.index = len(c.members)
	c.members = append(c.members, m)
	c.accepted.Add(1)
	return m, nil
}

// NextLoop implements nodeaccess.Acceptor.
func (c *crowd) NextLoop() transport.Loop {
	if c.loop == nil {
		return nil
	}
	return c.loop.Sockets()
}

// AcceptOn implements nodeaccess.Acceptor.
func (c *crowd) AcceptOn(_ transport.Loop, ctx context.Context, conn transport.Conn, info transport.Info) (transport.Peer, error) {
	return c.Accept(ctx, conn, info)
}

func (m *member) Receive([]byte) {
	m.crowd.received.Add(1)
	if m.crowd.heard != nil {
		m.crowd.heard <- struct{}{}
	}
}

func (m *member) Writable() {}

func (m *member) Closed(err error) {
	c := m.crowd
	cause := fmt.Sprint(err)
	var d protocol.Disconnect
	var e *rfc6455.CloseError
	switch {
	case errors.As(err, &d):
		cause = fmt.Sprint(d.Code)
	case errors.As(err, &e):
		cause = fmt.Sprint(e.Code)
	case strings.Contains(cause, "connection lost"):
		cause = "lost"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.causes[cause]++
	last := len(c.members) - 1
	c.members[m.index] = c.members[last]
	c.members[m.index].index = m.index
	c.members[last] = nil
	c.members = c.members[:last]
	c.over.Add(1)
}

// each calls f for every connection, where the core would.
func (c *crowd) each(f func(transport.Conn)) {
	c.mu.Lock()
	members := append([]*member(nil), c.members...)
	c.mu.Unlock()
	do := func() {
		for _, m := range members {
			f(m.conn)
		}
	}
	if c.loop == nil {
		do()
		return
	}
	done := make(chan struct{})
	c.loop.Post(loop.Func(func() { do(); close(done) }))
	<-done
}

// fill writes until no connection takes anything any more, and gives all up.
func (c *crowd) fill() {
	list := frames(testText(20_000), testText(20_000))
	for quiet := 0; quiet < 5; quiet++ {
		c.each(func(conn transport.Conn) {
			for n := 1; n > 0; {
				if n, _ = conn.Write(list); n > 0 {
					quiet = 0
				}
			}
		})
		time.Sleep(time.Millisecond) // buffers of the kernel grow
	}
	c.each(func(conn transport.Conn) { conn.Close(protocol.DisconnectSlow, nil) })
}

// outsider is a client that costs this process a descriptor and nothing else.
type outsider int

// again repeats a system call that the scheduler's signals interrupt.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) && !errors.Is(err, syscall.EALREADY) {
			return err
		}
		runtime.Gosched()
	}
}

// dial opens a connection and sends data.
func (c *crowd) dial(data string) outsider {
	c.t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	o := outsider(fd)
	timeout := syscall.NsecToTimeval(int64(patience))
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout)
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &timeout)
	_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
	to := &syscall.SockaddrInet4{Port: c.server.Listener.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	if err := again(func() error { return syscall.Connect(fd, to) }); err != nil && !errors.Is(err, syscall.EISCONN) {
		c.t.Fatalf("connect: %v", err)
	}
	o.send(data)
	return o
}

// open is dial with a handshake and its answer.
func (c *crowd) open(target string) outsider {
	c.t.Helper()
	o := c.dial(request("gyro.test", target, nil))
	var answer []byte
	var b [1]byte // nothing behind the answer
	for !bytes.HasSuffix(answer, []byte("\r\n\r\n")) {
		n := 0
		err := again(func() (err error) { n, err = syscall.Read(int(o), b[:]); return err })
		if n != 1 {
			c.t.Fatalf("handshake: %v, after %q", err, answer)
		}
		answer = append(answer, b[0])
	}
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 101 ")) {
		c.t.Fatalf("handshake: %q", answer)
	}
	return o
}

// send writes what fits into an empty socket.
func (o outsider) send(data string) {
	_ = again(func() error { _, err := syscall.Write(int(o), []byte(data)); return err })
}

func (o outsider) close() { _ = syscall.Close(int(o)) }

func (o outsider) reset() {
	_ = syscall.SetsockoptLinger(int(o), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	o.close()
}

// stock is what a process holds.
type stock struct {
	descriptors, goroutines int   // without those of an idle process
	heap, stacks            int64 // bytes in use
}

func (c *crowd) takeStock() stock {
	c.t.Helper()
	for range 2 { // the first one lets pools go
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return stock{opened(c.t, c.idle), runtime.NumGoroutine(), int64(m.HeapAlloc), int64(m.StackInuse)}
}

// fault is a kind of bad clients, and what the server may hold for each of them.
type fault struct {
	name    string
	clients int
	cfg     Config
	// come is how one comes and misbehaves; there tells that the server has noticed
	// what n of them did.
	come  func(c *crowd) outsider
	there func(c *crowd, n int64) bool
	// then is what happens when all are there; nil: nothing.
	then func(c *crowd)
	// goroutines and loops are the most bytes for each then, by driver; direct is
	// loops if 0.
	goroutines, loops, direct int64
	// leave is how they go; cause is why their connections ended.
	leave func(outsider)
	cause string
}

// keptInAll is what pools may have grown by between two stocks, however many clients
// there are: a buffer that the collector had taken away, say.
const keptInAll = 128 << 10

const faultyText = "never complete, but for all that as long as anything may be which this server takes from its clients"

var (
	allAccepted = func(c *crowd, n int64) bool { return c.accepted.Load() >= n }
	allOver     = func(c *crowd, n int64) bool { return c.over.Load() >= n }
)

var faults = []fault{
	{
		name: "silent", clients: 500, goroutines: 5 << 10, loops: 400,
		come:  func(c *crowd) outsider { return c.open("/") },
		there: allAccepted, leave: outsider.close, cause: "lost",
	},
	{
		name: "vanish at once", clients: 1000, goroutines: 5 << 10, loops: 400,
		come:  func(c *crowd) outsider { return c.open("/") },
		there: allAccepted, leave: outsider.reset, cause: "lost",
	},
	{
		name: "half-closed", clients: 1000, goroutines: 128, loops: 128,
		come: func(c *crowd) outsider {
			o := c.open("/")
			_ = syscall.Shutdown(int(o), syscall.SHUT_WR)
			return o
		},
		there: allOver, leave: outsider.close, cause: "lost",
	},
	{
		// Nothing tells the server that they are gone, but that pings stay unanswered.
		name: "half-open", clients: 500, goroutines: 7 << 10, loops: 1 << 10,
		cfg:   Config{PingInterval: 100 * time.Millisecond, PongTimeout: 50 * time.Millisecond, CloseTimeout: time.Minute},
		come:  func(c *crowd) outsider { return c.open("/?cf_ws_frame_ping_pong=true") },
		there: allOver, leave: outsider.close, cause: "3012",
	},
	{
		name: "garbage after the upgrade", clients: 500, goroutines: 7 << 10, loops: 1 << 10,
		cfg: Config{CloseTimeout: time.Minute},
		come: func(c *crowd) outsider {
			o := c.open("/")
			o.send("GET / HTTP/1.1\r\nHost: gyro.test\r\n\r\n" + strings.Repeat("\xff", 2000))
			return o
		},
		there: allOver, leave: outsider.reset, cause: "1002",
	},
	{
		// What they announce costs nothing, what they have sent is held.
		name: "byte by byte", clients: 200, goroutines: 9 << 10, loops: 2 << 10,
		come: func(c *crowd) outsider {
			o := c.open("/")
			o.send(string(masked(text("whole"))))
			for _, b := range masked(text(faultyText + strings.Repeat("x", 60_000)))[:len(faultyText)] {
				o.send(string([]byte{b}))
			}
			return o
		},
		there: func(c *crowd, n int64) bool { return c.received.Load() >= n }, leave: outsider.close, cause: "lost",
	},
	{
		// The core bounds what it holds for them, and closes them with 3008; the transport
		// takes a frame ahead, or 32 KB, and the Close frame.
		name: "never read", clients: 50, goroutines: 80 << 10, loops: 70 << 10,
		cfg:   Config{WriteTimeout: time.Minute},
		come:  func(c *crowd) outsider { return c.open("/") },
		there: allAccepted, then: (*crowd).fill, leave: outsider.reset, cause: "3008",
	},
	{
		name: "slow-loris", clients: 500, goroutines: 24 << 10, loops: 24 << 10, direct: 1 << 10,
		come:  func(c *crowd) outsider { return c.dial(request("gyro.test", "/", nil)[:60]) },
		there: func(*crowd, int64) bool { return true }, leave: outsider.close,
	},
}

// TestFaults: whatever clients do, the peer learns why it ended, and nothing remains.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		f.clients = min(f.clients/5, 100) // it is TestFaultsBudget that measures
		t.Run(f.name, func(t *testing.T) { f.test(t, math.MaxInt64) })
	}
}

// TestFaultsBudget: what the server holds for each of them is bounded.
func TestFaultsBudget(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory")
	}
	for _, f := range faults {
		bound := f.goroutines
		switch {
		case direct && f.direct > 0:
			bound = f.direct
		case onLoops && poll.Supported():
			bound = f.loops
		}
		t.Run(f.name, func(t *testing.T) { f.test(t, bound) })
	}
}

func (f *fault) test(t *testing.T, bound int64) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < 1<<30 {
		f.clients = min(f.clients, (int(limit.Cur)-len(descriptors(t))-100)/2)
	}
	c := newCrowd(t, f.cfg)
	f.leaveAll(c, f.comeAll(c, f.clients)) // what is kept for the next ones is there before
	before := c.takeStock()
	clients := f.comeAll(c, f.clients)
	during := c.takeStock()
	each := (during.heap + during.stacks - before.heap - before.stacks - keptInAll) / int64(f.clients)
	t.Logf("%d clients: %d bytes each", f.clients, each)
	if each > bound {
		t.Errorf("%d bytes for each client, at most %d may be held", each, bound)
	}
	f.leaveAll(c, clients)
	var after stock
	wait.Until(t, "no more is held than before", func() bool {
		after = c.takeStock()
		return after.descriptors <= before.descriptors && after.goroutines <= before.goroutines+2 &&
			(raceEnabled || after.heap <= before.heap+256<<10) // stacks of goroutines that are gone are reused
	})
	t.Logf("before %+v, with all clients %+v, after %+v", before, during, after)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.causes) > 1 || int64(c.causes[f.cause]) != c.accepted.Load() {
		t.Errorf("%d connections ended because of %v, want %q", c.accepted.Load(), c.causes, f.cause)
	}
}

// comeAll lets n clients come, and the server notice.
func (f *fault) comeAll(c *crowd, n int) (clients []outsider) {
	c.t.Helper()
	seen := c.accepted.Load()
	for range n {
		clients = append(clients, f.come(c))
	}
	wait.Until(c.t, "the server notices all", func() bool { return f.there(c, seen+int64(n)) })
	if f.cause == "" { // no handshake, no peer: both ends are there
		wait.Until(c.t, "all are accepted", func() bool { return opened(c.t, c.idle) >= 2*n })
	}
	if f.then != nil {
		f.then(c)
	}
	return clients
}

// leaveAll lets clients leave, and the server notice.
func (f *fault) leaveAll(c *crowd, clients []outsider) {
	c.t.Helper()
	for _, o := range clients {
		f.leave(o)
	}
	wait.Until(c.t, "all connections end", func() bool {
		return c.over.Load() == c.accepted.Load() && opened(c.t, c.idle) == 0
	})
}

// Neither driver allocates anything for a message.
func TestReceiveAllocBudget(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := newCrowd(t, Config{})
	c.heard = make(chan struct{})
	o := c.open("/")
	defer o.close()
	const batch, budget = 16, 1 // a loop may allocate when it is woken
	data := bytes.Repeat(masked(text(testText(100))), batch)
	if got := testing.AllocsPerRun(1000, func() {
		if n, err := syscall.Write(int(o), data); n != len(data) {
			t.Fatalf("sent %d bytes: %v", n, err)
		}
		for range batch {
			<-c.heard
		}
	}); got > budget {
		t.Errorf("%v allocations for %d messages, budget %d", got, batch, budget)
	}
}
