package pubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestReceive(t *testing.T) {
	for _, resp2 := range []bool{false, true} {
		bubble(t, func(s *stand) {
			s.server.resp2 = resp2
			s.start()
			s.expect("resubscribed false")
			s.subscribe("a", "b")
			s.publish("a", "1")
			s.publish("c", "2")
			s.publish("b", "")
			s.publish("a", "3")
			s.expect("a 1", "b ", "a 3")
			if err := s.conn.Unsubscribe(s.Context(), "a", "x"); err != nil {
				t.Fatal(err)
			}
			s.publish("a", "4")
			s.publish("b", "5")
			s.expect("b 5")
			if got := s.conn.Stats(); !got.Connected || got.Channels != 1 || got.Messages != 4 {
				t.Errorf("stats %+v", got)
			}
		})
	}
}

// Calls that come together share commands.
func TestSubscribeGathers(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		// The server reads one command and no more until all calls are made.
		thaw := make(chan struct{})
		s.server.set(func() { s.server.commands, s.server.freeze = nil, thaw })
		var all sync.WaitGroup
		for i := range 2000 {
			all.Go(func() { s.subscribe(fmt.Sprint("ch", i)) })
		}
		synctest.Wait()
		s.server.set(func() { s.server.freeze = nil })
		close(thaw)
		all.Wait()
		s.server.set(func() {
			// The first one, what came while that was written, and the rest in full ones.
			if n := len(s.server.commands); n > 7 {
				t.Errorf("%d commands for 2000 channels: %q", n, s.server.commands)
			}
		})
		s.server.set(func() { s.server.commands = nil })
		var many []string
		for i := range 1100 {
			many = append(many, fmt.Sprint("many", i))
		}
		s.subscribe(many...)
		s.server.set(func() {
			if want := []string{"SUBSCRIBE 512", "SUBSCRIBE 512", "SUBSCRIBE 76"}; !slices.Equal(s.server.commands, want) {
				t.Errorf("commands %q, want %q", s.server.commands, want)
			}
		})
		if n := len(s.server.channels()); n != 3100 {
			t.Errorf("%d channels", n)
		}
	})
}

func TestStartFails(t *testing.T) {
	bubble(t, func(s *stand) {
		s.server.refuse = errRefused
		s.conn = New(s.cfg)
		if err := s.conn.Start(s.Context()); !errors.Is(err, errRefused) {
			t.Fatal(err)
		}
		s.unhealthy("not connected")
		if err := s.conn.Subscribe(s.Context(), "a"); !errors.Is(err, ErrDisconnected) || !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "shard 0") {
			t.Error(err)
		}
		if err := s.conn.Start(s.Context()); err == nil {
			t.Error("started twice")
		}
		s.server.set(func() { s.server.refuse = nil })
		s.await(time.Second, "connects later", func() bool { _, err := s.conn.Health(); return err == nil })
		s.expect("resubscribed false")
	})
}

func TestStartGivesUpWaiting(t *testing.T) {
	bubble(t, func(s *stand) {
		s.cfg.Dial = func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, context.Cause(ctx) }
		s.conn = New(s.cfg)
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if err := s.conn.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(3500 * time.Millisecond)
		s.unhealthy("no connection within 4s")
	})
}

func TestConfig(t *testing.T) {
	whole := newStand(t).cfg
	for key, spoil := range map[string]func(*Config){
		"Config.Dial": func(c *Config) { c.Dial = nil }, "Config.Message": func(c *Config) { c.Message = nil },
		"Config.Publish": func(c *Config) { c.Publish = nil }, "Config.CanaryChannel": func(c *Config) { c.CanaryChannel = "" },
		"65537 bytes": func(c *Config) { c.CanaryChannel = strings.Repeat("x", 65537) },
	} {
		cfg := whole
		spoil(&cfg)
		conn := New(cfg)
		if err := conn.Start(t.Context()); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
		conn.Close()
	}
	conn := New(whole)
	conn.Close()
	conn.Close()
	if err := conn.Start(t.Context()); err == nil {
		t.Error("started after Close")
	}
	if err := conn.Unsubscribe(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if err := conn.Subscribe(t.Context(), strings.Repeat("x", maxChannelName+1)); err == nil || !strings.Contains(err.Error(), "65536") {
		t.Error(err)
	}
}

func TestBackoff(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		s.server.set(func() { s.server.refuse = errRefused; s.server.dials = nil })
		s.server.cut()
		time.Sleep(30 * time.Second)
		s.unhealthy("not connected for 30s: connect: connection refused")
		var pauses []time.Duration
		s.server.set(func() {
			for i, at := range s.server.dials[1:] {
				pauses = append(pauses, at.Sub(s.server.dials[i]))
			}
		})
		for i, want := range []time.Duration{150 * time.Millisecond, 187500 * time.Microsecond, 187500 * time.Microsecond} {
			if pauses[i] != want {
				t.Fatalf("pause %d is %v, want %v", i, pauses[i], want)
			}
		}
		s.server.set(func() { s.server.refuse = nil })
		if took := s.await(5*time.Second, "recovers", s.reconnects(1)); took > 250*time.Millisecond {
			t.Errorf("connected %s after the server was back", took)
		}
		time.Sleep(2 * time.Second)
		s.healthy()
		s.server.cut()
		if took := s.await(time.Second, "recovers again", s.reconnects(2)); took > 200*time.Millisecond {
			t.Errorf("backoff was not reset: %s", took)
		}
	})
}

// Who is woken does not wait for the end of the pause, nor does everybody come at once.
func TestWake(t *testing.T) {
	bubble(t, func(s *stand) {
		s.cfg.MaxBackoff = 5 * time.Second
		s.start()
		s.server.set(func() { s.server.refuse = errRefused })
		s.server.cut()
		time.Sleep(30 * time.Second)
		s.server.set(func() { s.server.refuse, s.server.dials = nil, nil })
		synctest.Wait()
		s.server.set(func() {
			if n := len(s.server.dials); n > 0 {
				t.Fatalf("%d attempts in the midst of a pause", n)
			}
		})
		s.conn.Wake()
		if took := s.await(time.Second, "connects", s.reconnects(1)); took < 200*time.Millisecond || took > 300*time.Millisecond {
			t.Errorf("connected %s after it was woken", took)
		}
		s.conn.Wake() // for nothing
		s.healthy()
	})
}

// An outage is told once when it begins and once when it ends, however many attempts to
// connect fail.
func TestOutageIsLoggedOnce(t *testing.T) {
	bubble(t, func(s *stand) {
		var log bytes.Buffer
		s.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s.start()
		s.subscribe("a")
		s.server.set(func() { s.server.refuse = errRefused })
		s.server.cut()
		time.Sleep(time.Minute)
		s.server.set(func() { s.server.refuse = nil })
		s.await(time.Second, "connects", s.reconnects(1))
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 {
			t.Fatalf("%d lines: %s", len(lines), &log)
		}
		for i, parts := range [][]string{{"level=WARN", "connection lost", `part="shard 0"`, "reason=", "channels=1"}, {"level=INFO", "restored", "failed_at=", "after_ms=60"}} {
			for _, part := range parts {
				if !strings.Contains(lines[i], part) {
					t.Errorf("no %s in %s", part, lines[i])
				}
			}
		}
	})
}

// What a connection had received when it failed is delivered.
func TestDrain(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		s.subscribe("a")
		s.expect("resubscribed false")
		s.server.set(func() { s.server.refuse = errRefused })
		for i := range 5 {
			s.publish("a", fmt.Sprint(i))
		}
		s.conn.heartbeat.current.fail(errors.New("write failed"))
		s.expect("a 0", "a 1", "a 2", "a 3", "a 4")
		s.unhealthy("write failed")
		s.server.set(func() { s.server.refuse = nil })
		if took := s.await(time.Second, "reconnects", s.reconnects(1)); took > 300*time.Millisecond {
			t.Errorf("reconnected after %s", took)
		}
		s.expect("resubscribed true")
	})
}

// A server that accepts connections but never delivers does not reset the backoff.
func TestBackoffWithoutProof(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		s.server.set(func() { s.server.mute = true; s.server.dials = nil })
		time.Sleep(time.Minute)
		s.server.set(func() {
			if n := len(s.server.dials); n < 5 || n > 20 {
				t.Errorf("%d connections in a minute", n)
			}
			s.server.mute = false
		})
		s.await(10*time.Second, "recovers", func() bool { _, err := s.conn.Health(); return err == nil })
	})
}

func TestReconnect(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		s.subscribe("a", "b", "c")
		s.server.set(func() { s.server.refuse = errRefused })
		s.expect("resubscribed false")
		s.server.cut()
		synctest.Wait()
		if err := s.conn.Subscribe(s.Context(), "d"); !errors.Is(err, ErrDisconnected) {
			t.Error(err)
		}
		if err := s.conn.Unsubscribe(s.Context(), "b", "d"); err != nil {
			t.Error(err)
		}
		s.server.set(func() { s.server.refuse = nil })
		s.await(time.Second, "reconnects", s.reconnects(1))
		s.expect("resubscribed true")
		s.healthy()
		if got := s.server.channels(); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("channels %q", got)
		}
		s.publish("c", "1")
		s.expect("c 1")
		if got, want := s.conn.Stats().Failures, (Failures{Connections: 1, Subscribes: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// What waits for a confirmation fails with the connection.
func TestBreakBeforeConfirmation(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		s.server.set(func() { s.server.deaf["SUBSCRIBE"] = true; s.server.deaf["UNSUBSCRIBE"] = true })
		result := make(chan error, 2)
		go func() { result <- s.conn.Subscribe(s.Context(), "a") }()
		synctest.Wait()
		begin := time.Now()
		s.server.cut()
		if err := <-result; !errors.Is(err, ErrDisconnected) || time.Since(begin) != 0 {
			t.Error(err, time.Since(begin))
		}
		s.server.set(func() { clear(s.server.deaf) })
		s.await(time.Second, "reconnects", s.reconnects(1))
		if got := s.server.channels(); len(got) != 0 {
			t.Errorf("channels %q", got)
		}
		s.subscribe("b")
		s.server.set(func() { s.server.deaf["UNSUBSCRIBE"] = true })
		go func() { result <- s.conn.Unsubscribe(s.Context(), "b") }()
		synctest.Wait()
		s.server.cut()
		if err := <-result; err != nil {
			t.Error(err)
		}
		if n := s.conn.Stats().Channels; n != 0 {
			t.Errorf("%d channels", n)
		}
	})
}

// A Subscribe that nobody waited for to the end leaves nothing subscribed.
func TestSubscribeTimeout(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		freeze := make(chan struct{})
		s.server.set(func() { s.server.freeze = freeze })
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if err := s.conn.Subscribe(ctx, "a", "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		s.server.set(func() { s.server.freeze = nil })
		close(freeze)
		s.await(time.Second, "rolled back", func() bool { return s.conn.Stats().Channels == 0 })
		if got := s.server.channels(); len(got) != 0 {
			t.Errorf("channels %q", got)
		}
		s.server.set(func() { s.server.deaf["SUBSCRIBE"], s.server.deaf["PING"] = true, true })
		begin := time.Now()
		if err := s.conn.Subscribe(s.Context(), "c"); !strings.Contains(err.Error(), "not confirmed within 4s") || time.Since(begin) != 4*time.Second {
			t.Error(err, time.Since(begin))
		}
	})
}

func TestRejected(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		s.subscribe("a")
		s.server.set(func() { s.server.reject["SUBSCRIBE"] = "NOPERM no access to the channel" })
		if err := s.conn.Subscribe(s.Context(), "b"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Error(err)
		}
		s.healthy()
		if got := s.conn.Stats(); got.Channels != 1 || got.Reconnects != 0 || got.Failures != (Failures{Subscribes: 1}) {
			t.Errorf("%+v", got)
		}
		// What was subscribed and cannot be again keeps the connection from being ready.
		s.server.cut()
		time.Sleep(10 * time.Second)
		s.unhealthy("NOPERM")
		s.server.set(func() { clear(s.server.reject) })
		s.await(10*time.Second, "recovers", s.reconnects(1))
		s.expect("resubscribed false", "resubscribed true")
	})
}

// In sharded mode the server ends subscriptions when a slot moves.
func TestSharded(t *testing.T) {
	bubble(t, func(s *stand) {
		s.cfg.Sharded = true
		s.start()
		s.subscribe("a", "b")
		s.server.set(func() {
			if s.server.commands[0] != "SSUBSCRIBE 1" {
				t.Errorf("commands %q", s.server.commands)
			}
		})
		s.server.say(append(s.server.event(nil, "sunsubscribe", "a"), ":1\r\n"...))
		s.await(time.Second, "reconnects", s.reconnects(1))
		if got := s.server.channels(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("channels %q", got)
		}
		s.server.set(func() { s.server.reject["SSUBSCRIBE"] = "MOVED 1 127.0.0.1:7001" })
		if err := s.conn.Subscribe(s.Context(), "c"); err == nil || !strings.Contains(err.Error(), "MOVED") {
			t.Error(err)
		}
		time.Sleep(time.Second)
		s.unhealthy("MOVED")
		s.server.set(func() { clear(s.server.reject) })
		s.await(5*time.Second, "reconnects", s.reconnects(2))
	})
}

// What the server must not say ends the connection, with the reason.
func TestUnexpected(t *testing.T) {
	for text, want := range map[string]string{
		"?\r\n":                              "unknown type",
		">3\r\n+subscribe\r\n+x\r\n:1\r\n":   "unexpected confirmation",
		">3\r\n+unsubscribe\r\n+x\r\n:1\r\n": "ended a subscription",
		">2\r\n+message\r\n+x\r\n":           "unexpected event",
		":1\r\n":                             "unexpected answer",
		"+PONG\r\n":                          "unexpected answer of a PING",
		"-ERR whatever\r\n":                  "ERR whatever",
		">3\r\n+message\r\n+x\r\n$1000000000000\r\n":   "out of range",
		">3\r\n+message\r\n+x\r\n$100000000\r\n":       "exceeds the limit",
		">3\r\n+message\r\n+x\r\n$5\r\nabcde\r\n+OK\n": "CRLF",
	} {
		bubble(t, func(s *stand) {
			s.start()
			s.server.set(func() { s.server.refuse = errors.New("later") })
			s.server.say([]byte(text))
			synctest.Wait()
			s.unhealthy(want)
			s.server.set(func() { s.server.refuse = nil })
			s.await(time.Second, "reconnects", s.reconnects(1))
		})
	}
}

// Close ends everything at any moment: in the midst of dialing, subscribing,
// handing over.
func TestClose(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		s.server.set(func() { s.server.deaf["SUBSCRIBE"] = true })
		result := make(chan error, 1)
		go func() { result <- s.conn.Subscribe(s.Context(), "a") }()
		synctest.Wait()
		s.conn.Close()
		if err := <-result; !errors.Is(err, errClosed) {
			t.Error(err)
		}
		if err := s.conn.Subscribe(s.Context(), "a"); !errors.Is(err, ErrDisconnected) {
			t.Error(err)
		}
		s.unhealthy("closed")
	})
	bubble(t, func(s *stand) {
		s.cfg.Dial = func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		s.conn = New(s.cfg)
		result := make(chan error, 1)
		go func() { result <- s.conn.Start(s.Context()) }()
		synctest.Wait()
		s.conn.Close()
		if err := <-result; !errors.Is(err, errClosed) {
			t.Error(err)
		}
	})
	bubble(t, func(s *stand) {
		s.start()
		s.subscribe("a")
		s.events()
		hold := make(chan struct{})
		s.mu.Lock()
		s.hold = hold
		s.mu.Unlock()
		s.publish("a", "1")
		s.publish("a", "2")
		synctest.Wait()
		closed := make(chan struct{})
		go func() { s.conn.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("did not wait for Message")
		default:
		}
		close(hold)
		<-closed
		s.expect("a 1")
	})
}
