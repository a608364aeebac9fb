package pubsub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A handler that is behind makes the reader wait, then drop; what was dropped is
// told once the handler has caught up, and order is kept.
func TestOverflow(t *testing.T) {
	bubble(t, func(s *stand) {
		s.cfg.MaxQueue = 8
		s.start()
		s.subscribe("a", "b", "c")
		s.events()
		hold := make(chan struct{})
		s.set(hold)
		for i := range 8 {
			s.publish("a", fmt.Sprint(i))
		}
		s.publish("b", "dropped")
		s.publish("c", "dropped")
		for i := range 5 {
			s.publish("b", fmt.Sprint("dropped", i))
		}
		time.Sleep(999 * time.Millisecond)
		if got := s.conn.Stats(); got.Dropped != 0 || got.Waiting != 8 {
			t.Errorf("the reader did not wait: %+v", got)
		}
		time.Sleep(2 * time.Millisecond)
		s.set(nil)
		close(hold)
		s.expect("a 0", "a 1", "a 2", "a 3", "a 4", "a 5", "a 6", "a 7", "overflow [b c]")
		if got := s.conn.Stats(); got.Dropped != 7 || got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
		s.publish("b", "again")
		s.expect("b again")
		s.healthy()
	})
}

func (s *stand) set(hold chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = hold
}

// A handler that is behind for a short time loses nothing.
func TestBackPressure(t *testing.T) {
	bubble(t, func(s *stand) {
		s.cfg.MaxQueue = 4
		s.start()
		s.subscribe("a")
		s.events()
		hold := make(chan struct{})
		s.set(hold)
		var want []string
		for i := range 50 {
			s.publish("a", fmt.Sprint(i))
			want = append(want, fmt.Sprint("a ", i))
		}
		time.Sleep(900 * time.Millisecond)
		s.set(nil)
		close(hold)
		s.expect(want...)
	})
}

// While the handler stays behind, drops are told every second.
func TestOverflowGoesOn(t *testing.T) {
	bubble(t, func(s *stand) {
		s.cfg.MaxQueue = 4 * run
		s.cfg.Message = func(_, _ []byte) { time.Sleep(10 * time.Millisecond) }
		s.start()
		s.subscribe("a")
		begin := time.Now()
		for time.Since(begin) < 8*time.Second {
			s.publish("a", "x")
			time.Sleep(time.Millisecond)
		}
		told := 0
		for _, e := range s.events() {
			if e == "overflow [a]" {
				told++
			}
		}
		if told < 5 || told > 8 {
			t.Errorf("told %d times in 8 s", told)
		}
		if got := s.conn.Stats(); got.Dropped == 0 || got.Dropped >= got.Messages {
			t.Errorf("%+v", got)
		}
	})
}

func testQueue(cfg Config) *queue {
	cfg.complete()
	return newQueue(&cfg, make(chan struct{}))
}

func TestQueueBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(Config{MaxQueueBytes: 100})
		of := func(n int) []message { return []message{{channel: []byte("c"), payload: make([]byte, n)}} }
		q.push(of(1000)) // one always has room
		q.push(of(1))
		if waiting, dropped := q.counts(); waiting != 1 || dropped != 1 {
			t.Error(waiting, dropped)
		}
		batch := q.take(nil)
		if channels, lost := q.release(batch); !lost || !slices.Equal(channels, []string{"c"}) {
			t.Error(channels, lost)
		}
		q.push(of(50))
		q.push(of(48))
		if waiting, dropped := q.counts(); waiting != 2 || dropped != 1 {
			t.Error(waiting, dropped)
		}
		if q.bytes != 100 {
			t.Errorf("%d bytes", q.bytes)
		}
	})
}

// Too many channels to be listed stand for all.
func TestOverflowOfManyChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(Config{MaxQueue: 1})
		q.push([]message{{channel: []byte("first")}})
		for i := range maxLost + 10 {
			q.push([]message{{channel: fmt.Append(nil, i)}})
		}
		if channels, lost := q.release(q.take(nil)); !lost || channels != nil {
			t.Error(len(channels), lost)
		}
		q.push([]message{{channel: []byte("a")}, {channel: []byte("b")}})
		if channels, lost := q.release(q.take(nil)); !lost || strings.Join(channels, "") != "b" {
			t.Error(channels, lost)
		}
	})
}
