package pubsub

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A server that is stopped, or a connection that is half open: nobody answers.
func TestFrozenServer(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		s.subscribe("a")
		freeze := make(chan struct{})
		s.server.set(func() { s.server.freeze = freeze; s.server.refuse = errRefused })
		s.await(3*time.Second, "unhealthy", func() bool { _, err := s.conn.Health(); return err != nil })
		took := s.await(5*time.Second, "gives up", func() bool { return !s.conn.Stats().Connected })
		if took > 2*time.Second {
			t.Errorf("gave up %s after being unhealthy", took)
		}
		s.unhealthy("nothing received for 3")
		s.server.set(func() { s.server.freeze = nil; s.server.refuse = nil })
		close(freeze)
		s.await(10*time.Second, "recovers", func() bool { _, err := s.conn.Health(); return err == nil })
		s.expect("resubscribed false", "resubscribed true")
	})
}

// A server that answers but does not deliver.
func TestMuteServer(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		s.server.set(func() { s.server.mute = true })
		took := s.await(10*time.Second, "gives up", func() bool { return !s.conn.Stats().Connected })
		if took < 3*time.Second || took > 5*time.Second {
			t.Errorf("gave up after %s", took)
		}
		s.unhealthy("no canary for 3")
		s.server.set(func() { s.server.mute = false })
		s.await(time.Second, "recovers", s.reconnects(1))
		s.healthy()
		if got, want := s.conn.Stats().Failures, (Failures{Connections: 1, Timeouts: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// When the canary cannot be published, the connection still answers.
func TestCanaryNotPublished(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		s.server.set(func() { s.server.unsend = errors.New("OOM") })
		time.Sleep(time.Minute)
		s.unhealthy("no canary published: OOM")
		s.server.set(func() { s.server.unsend = nil })
		time.Sleep(time.Second)
		synctest.Wait()
		s.healthy()
		if got := s.conn.Stats(); got.Reconnects != 0 || got.Unsent < 59 || got.Unsent > 61 || got.Connections+got.Timeouts != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A publish that hangs does not gather others, and does not outlive its timeout.
func TestCanaryHangs(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		freeze := make(chan struct{})
		s.server.set(func() { s.server.freeze = freeze })
		time.Sleep(2500 * time.Millisecond)
		s.server.set(func() { s.server.freeze = nil })
		close(freeze)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		s.healthy()
	})
}

// Time in which the process did not run is no idle time: nothing could have read.
func TestPausedProcess(t *testing.T) {
	bubble(t, func(s *stand) {
		s.conn = New(s.cfg) // which nobody starts: check is called by the test alone
		p, period := s.conn.heartbeat, s.conn.cfg.period()
		cn := s.conn.newConnection(nil)
		cn.lastReceived.Store(p.clock())
		p.open(cn)
		p.published(1, nil)
		check := func() error { _, err := p.check(cn); return err }
		for range 2 {
			time.Sleep(period)
			if err := check(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute) // the process is stopped
		for range 3 {
			if err := check(); err != nil {
				t.Fatal("given up after a pause:", err)
			}
			time.Sleep(time.Millisecond)
		}
		for range 2 { // while it runs, idle time counts
			time.Sleep(period)
			if err := check(); err != nil {
				t.Fatal("given up too soon:", err)
			}
		}
		time.Sleep(period)
		if err := check(); err == nil || !strings.Contains(err.Error(), "nothing received for 3s") {
			t.Error(err)
		}
		// A canary that is outstanding, while other answers come.
		p.open(cn)
		p.published(2, nil)
		time.Sleep(time.Minute)
		for i := range 6 {
			cn.lastReceived.Store(p.clock())
			if err := check(); (err != nil) != (i == 5) {
				t.Error(i, err)
			}
			time.Sleep(period)
		}
	})
}

// Messages are signs of life; a canary that stays away all the same is too much
// after a while.
func TestCanaryLost(t *testing.T) {
	bubble(t, func(s *stand) {
		s.cfg.Publish = func(ctx context.Context, channel string, data []byte) error {
			if s.held() != nil {
				return nil
			}
			return s.server.publish(ctx, channel, data)
		}
		s.cfg.Message = func(_, _ []byte, _ *Chunk) {}
		s.start()
		s.subscribe("a")
		s.mu.Lock()
		s.hold = make(chan struct{})
		s.mu.Unlock()
		begin := time.Now()
		for s.conn.Stats().Connected {
			s.publish("a", "1")
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if away := time.Since(begin); away > 4*time.Second && away < 14*time.Second {
				s.unhealthy("no canary for")
			}
		}
		if took := time.Since(begin); took < 14*time.Second || took > 18*time.Second {
			t.Errorf("gave up after %s", took)
		}
	})
}

// The canary goes the way of messages: a handler that is behind shows.
func TestCanaryBehindHandler(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		s.subscribe("a")
		hold := make(chan struct{})
		s.mu.Lock()
		s.hold = hold
		s.mu.Unlock()
		s.publish("a", "1")
		time.Sleep(10 * time.Second)
		s.unhealthy("no canary for 1")
		if got := s.conn.Stats(); !got.Connected || got.Reconnects != 0 {
			t.Errorf("the handler was slow, the connection was rebuilt: %+v", got)
		}
		s.mu.Lock()
		s.hold = nil
		s.mu.Unlock()
		close(hold)
		synctest.Wait()
		if delay, err := s.conn.Health(); err != nil || delay > time.Second {
			t.Error(delay, err)
		}
	})
}

// Canaries of others, and garbage, count for nothing.
func TestForeignCanary(t *testing.T) {
	bubble(t, func(s *stand) {
		s.start()
		for _, data := range []string{"", "x", "x 1 2", s.conn.heartbeat.token, s.conn.heartbeat.token + " 1", s.conn.heartbeat.token + " x 1", s.conn.heartbeat.token + " 1 x", string(make([]byte, 100))} {
			if _, _, ok := s.conn.heartbeat.parse([]byte(data)); ok {
				t.Errorf("%q counts", data)
			}
			s.publish(canaryChannel, data)
		}
		s.expect("resubscribed false")
	})
}
