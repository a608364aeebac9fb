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
		for i := range 9 {
			s.publish("a", fmt.Sprint(i))
		}
		time.Sleep(500 * time.Millisecond) // until the reader is relieved
		s.publish("b", "dropped")
		s.publish("c", "dropped")
		for i := range 5 {
			s.publish("b", fmt.Sprint("dropped", i))
		}
		time.Sleep(900 * time.Millisecond)
		if got := s.conn.Stats(); got.Dropped != 0 || got.Waiting != 8 {
			t.Errorf("the reader did not wait: %+v", got)
		}
		time.Sleep(600 * time.Millisecond)
		s.set(nil)
		close(hold)
		s.expect("a 0", "a 1", "a 2", "a 3", "a 4", "a 5", "a 6", "a 7", "a 8", "overflow [b c]")
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

// What TakeDropped takes is not dropped.
func TestAside(t *testing.T) {
	bubble(t, func(s *stand) {
		s.cfg.MaxQueue = 2
		s.cfg.TakeDropped = func(channel, payload []byte) bool {
			if string(channel) == "control" {
				s.note("taken " + string(payload))
			}
			return string(channel) == "control"
		}
		s.start()
		s.subscribe("a", "control")
		s.events()
		hold := make(chan struct{})
		s.set(hold)
		for range 4 {
			s.publish("a", "x")
		}
		time.Sleep(500 * time.Millisecond) // until the reader is relieved
		s.publish("control", "1")
		s.publish("a", "dropped")
		s.publish("control", "2")
		time.Sleep(2 * time.Second)
		s.set(nil)
		s.expect("a x", "taken 1", "taken 2")
		close(hold)
		s.expect("a x", "a x", "overflow [a]")
		if got := s.conn.Stats(); got.Dropped != 2 {
			t.Errorf("%+v", got)
		}
		s.publish("control", "3")
		s.expect("control 3")
	})
}

// While the handler stays behind, drops are told every second.
func TestOverflowGoesOn(t *testing.T) {
	bubble(t, func(s *stand) {
		s.cfg.MaxQueue = 4 * run
		s.cfg.Message = func(_, _ []byte, _ *Chunk) { time.Sleep(10 * time.Millisecond) }
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
		if told < 3 || told > 8 {
			t.Errorf("told %d times in 8 s", told)
		}
		if got := s.conn.Stats(); got.Dropped == 0 || got.Dropped >= got.Messages {
			t.Errorf("%+v", got)
		}
	})
}

func testQueue(cfg Config) *queue {
	cfg.complete()
	q := newQueue(&cfg, make(chan struct{}), func(m *message) {
		if m.note != nil {
			m.note()
		}
	}, nil)
	q.busy = true // so that messages wait
	q.setReader(&reader)
	return q
}

var reader readerID

func (q *queue) receive(m ...message) { q.put(&reader, m, time.Now()) }

func TestQueueBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost []string
		q := testQueue(Config{MaxQueueBytes: 100, Overflow: func(channels []string) { lost = channels }})
		of := func(n int) message { return message{channel: []byte("c"), payload: make([]byte, n)} }
		q.receive(of(1000)) // one always has room
		q.receive(of(1))
		if waiting, dropped := q.counts(); waiting != 1 || dropped != 1 {
			t.Error(waiting, dropped)
		}
		q.drain()
		if !slices.Equal(lost, []string{"c"}) {
			t.Error(lost)
		}
		q.busy = true
		q.receive(of(50))
		q.receive(of(48))
		if waiting, dropped := q.counts(); waiting != 2 || dropped != 1 {
			t.Error(waiting, dropped)
		}
		if q.waiting.bytes != 100 {
			t.Errorf("%d bytes", q.waiting.bytes)
		}
	})
}

// Too many channels to be listed stand for all.
func TestOverflowOfManyChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := []string{"nothing"}
		q := testQueue(Config{MaxQueue: 1, Overflow: func(channels []string) { lost = channels }})
		q.receive(message{channel: []byte("first")})
		for i := range maxLost + 10 {
			q.receive(message{channel: fmt.Append(nil, i)})
		}
		if q.drain(); lost != nil {
			t.Error(len(lost))
		}
		q.busy = true
		q.receive(message{channel: []byte("a")}, message{channel: []byte("b")})
		if q.drain(); strings.Join(lost, "") != "b" {
			t.Error(lost)
		}
	})
}
