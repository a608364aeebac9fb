package pubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/resp"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// publisher sends commands on a connection of its own, one at a time.
type publisher struct {
	addr string

	mu     sync.Mutex
	conn   net.Conn
	reader *resp.Reader
}

func (p *publisher) publish(ctx context.Context, channel string, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.try(ctx, 1, func(buf []byte) []byte {
		return resp.AppendBulk(resp.AppendBulk(resp.AppendBulk(append(buf, "*3\r\n"...), "PUBLISH"), channel), string(data))
	})
	if err != nil && p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}
	return err
}

func (p *publisher) try(ctx context.Context, n int, request func([]byte) []byte) error {
	if p.conn == nil {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", p.addr)
		if err != nil {
			return err
		}
		p.conn, p.reader = conn, resp.NewReader(conn, 4096, 1<<20)
	}
	deadline, _ := ctx.Deadline()
	p.conn.SetDeadline(deadline)
	if _, err := p.conn.Write(request(nil)); err != nil {
		return err
	}
	for range n {
		var f resp.Frame
		if err := p.reader.Next(&f); err != nil {
			return err
		}
		if f.Kind == '-' {
			return errors.New(string(f.Text))
		}
	}
	return nil
}

func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		p.conn.Close()
	}
}

// live is a Conn at a real server.
type live struct {
	testing.TB
	server    *redistest.Server
	publisher *publisher
	conn      *Conn
	messages  chan string
	losses    chan bool
}

func newLive(tb testing.TB, login Login, tune ...func(*Config)) *live {
	l := &live{
		TB: tb, server: redistest.Standalone(tb, redistest.Options{}),
		messages: make(chan string, 10_000), losses: make(chan bool, 100),
	}
	noLeaks(tb)
	l.publisher = &publisher{addr: l.server.Addr()}
	cfg := Config{
		Name: "shard 0", CanaryChannel: canaryChannel, Publish: l.publisher.publish,
		Dial: func(ctx context.Context) (net.Conn, error) { return dialRedis(ctx, l.server.Addr(), login) },
		Message: func(channel, payload []byte, _ *Chunk) {
			l.messages <- string(channel) + " " + string(payload)
		},
		Resubscribed:   func(lost bool) { l.losses <- lost },
		CanaryInterval: 100 * time.Millisecond, CanaryTimeout: 2 * time.Second,
		MaxBackoff: 200 * time.Millisecond,
	}
	for _, f := range tune {
		f(&cfg)
	}
	l.conn = New(cfg)
	tb.Cleanup(func() {
		l.conn.Close()
		l.publisher.close()
	})
	if err := l.conn.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	l.resubscribed(false)
	return l
}

func dialRedis(ctx context.Context, addr string, login Login) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := Handshake(ctx, conn, login); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// noLeaks checks that goroutines and descriptors are as many as before when the test
// has ended.
func noLeaks(tb testing.TB) {
	count := func() (int, int) {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return runtime.NumGoroutine(), 0
		}
		return runtime.NumGoroutine(), len(files)
	}
	goroutines, files := count()
	tb.Cleanup(func() {
		var g, f int
		if !wait.Within(wait.Limit, func() bool { g, f = count(); return g <= goroutines && f <= files }) {
			stacks := make([]byte, 1<<16)
			tb.Errorf("%d goroutines, %d files; before: %d, %d\n%s", g, f, goroutines, files, stacks[:runtime.Stack(stacks, true)])
		}
	})
}

func (l *live) resubscribed(want bool) {
	l.Helper()
	select {
	case lost := <-l.losses:
		if lost != want {
			l.Fatalf("Resubscribed(%v)", lost)
		}
	case <-time.After(wait.Limit):
		_, err := l.conn.Health()
		l.Fatal("not resubscribed; health: ", err)
	}
}

// eventually waits until health is as wanted, and returns how long that took.
func (l *live) eventually(healthy bool) (took time.Duration, err error) {
	l.Helper()
	begin := time.Now()
	wait.Until(l, fmt.Sprintf("healthy: %v", healthy), func() bool {
		_, err = l.conn.Health()
		return healthy == (err == nil)
	})
	return time.Since(begin), err
}

// givenUp waits until the connection is given up.
func (l *live) givenUp() {
	l.Helper()
	wait.Until(l, "the connection is given up", func() bool { return !l.conn.Stats().Connected })
}

// passes demands that a message gets through.
func (l *live) passes(channel, data string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), wait.Limit)
	defer cancel()
	if err := l.publisher.publish(ctx, channel, []byte(data)); err != nil {
		l.Fatal(err)
	}
	select {
	case m := <-l.messages:
		if m != channel+" "+data {
			l.Fatalf("%.200q", m)
		}
	case <-ctx.Done():
		l.Fatal("no message")
	}
}

func TestRedis(t *testing.T) {
	for name, login := range map[string]Login{"RESP3": {ClientName: "gyro"}, "RESP2": {ClientName: "gyro", RESP2: true}} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t, login)
			if err := l.conn.Subscribe(t.Context(), "a", "b"); err != nil {
				t.Fatal(err)
			}
			l.passes("a", "hello")
			l.passes("b", strings.Repeat("x", 3<<20))
			if got := l.server.Do("PUBSUB", "CHANNELS", "*"); len(strings.Fields(got)) != 3 {
				t.Errorf("channels %q", got)
			}
			if got := l.server.Do("CLIENT", "LIST", "TYPE", "pubsub"); strings.Count(got, "name=gyro") != 1 {
				t.Errorf("clients %q", got)
			}
			if err := l.conn.Unsubscribe(t.Context(), "a", "b"); err != nil {
				t.Fatal(err)
			}
			if got := l.server.Do("PUBSUB", "CHANNELS", "*"); got != canaryChannel {
				t.Errorf("channels %q", got)
			}
			if delay, err := l.conn.Health(); err != nil || delay <= 0 {
				t.Error(delay, err)
			}
		})
	}
}

func TestRedisFaults(t *testing.T) {
	l := newLive(t, Login{})
	if err := l.conn.Subscribe(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, fault := range []struct {
		name  string
		begin func()
		end   func()
	}{
		{"CLIENT KILL", func() { l.server.Do("CLIENT", "KILL", "TYPE", "pubsub") }, func() {}},
		{"kill", l.server.Kill, func() { l.server.Restart(true) }},
		{"restart", func() { l.server.Restart(true) }, func() {}},
		{"SIGSTOP", func() { l.server.Stop(); l.givenUp() }, l.server.Continue},
	} {
		t.Run(fault.name, func(t *testing.T) {
			l.TB = t
			fault.begin()
			noticed, reason := l.eventually(false)
			if err := l.conn.Unsubscribe(t.Context(), "unknown"); err != nil {
				t.Error(err)
			}
			end := time.Now()
			fault.end()
			l.resubscribed(true)
			l.eventually(true)
			took := time.Since(end)
			l.passes("a", fault.name)
			t.Logf("noticed after %s (%v), healthy %s after the end", noticed.Round(time.Millisecond), reason, took.Round(time.Millisecond))
		})
	}
	l.TB = t
}

// Redis drops a connection that does not read; here what is not handed over in time
// is dropped instead, and the connection stays.
func TestRedisSlowHandler(t *testing.T) {
	overflow := make(chan struct{}, 100)
	slow := make(chan struct{})
	l := newLive(t, Login{}, func(cfg *Config) {
		message := cfg.Message
		cfg.Message = func(channel, payload []byte, memory *Chunk) {
			<-slow
			if string(payload) == "last" {
				message(channel, payload, memory)
			}
		}
		cfg.Overflow = func([]string) { overflow <- struct{}{} }
		cfg.MaxStall = 50 * time.Millisecond
	})
	if err := l.conn.Subscribe(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	payload := bytes.Repeat([]byte("x"), 100<<10)
	for i := range uint64(1000) {
		if err := l.publisher.publish(t.Context(), "a", payload); err != nil {
			t.Fatal(err)
		}
		// In the time that it takes to become full, Redis must not have 32 MiB to send.
		wait.Until(t, fmt.Sprintf("all but 100 of %d messages are read", i), func() bool { return l.conn.Stats().Messages+100 >= i })
	}
	l.eventually(false)
	close(slow)
	<-overflow
	l.eventually(true)
	l.passes("a", "last")
	if got := l.conn.Stats(); got.Reconnects != 0 || got.Dropped == 0 {
		t.Errorf("%+v", got)
	}
}

func TestRedisLogin(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{Password: "s3cret"})
	for _, resp2 := range []bool{false, true} {
		for password, want := range map[string]string{"": "NOAUTH", "other": "WRONGPASS", "s3cret": ""} {
			conn, err := dialRedis(t.Context(), server.Addr(), Login{Password: password, RESP2: resp2})
			if err == nil {
				conn.Close()
			}
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%q: %v", password, err)
			}
		}
	}
}

// Figures of a shard: what a restart costs a node with 100,000 channels.
func BenchmarkResubscribe(b *testing.B) {
	l := newLive(b, Login{})
	channels := make([]string, 100_000)
	for i := range channels {
		channels[i] = fmt.Sprintf("centrifugo.client.channel:%d", i)
	}
	if err := l.conn.Subscribe(b.Context(), channels...); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l.server.Do("CLIENT", "KILL", "TYPE", "pubsub")
		l.resubscribed(true)
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/resubscription")
}
