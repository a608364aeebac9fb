package front

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// TestLateBody: when its time is over, a request with half a body goes to net/http, and one with half
// a head is closed.
func TestLateBody(t *testing.T) {
	s := newSiteOf(t, func(s *http.Server) { s.ReadHeaderTimeout = time.Hour }, streams)
	half, sent := s.open(), post(5, "he")
	s.send(half, sent[:20])
	nc := s.open()
	s.send(nc, sent)
	in := s.ln.intakes[s.loop]
	for o := in.waiting.oldest; o != nil; o = in.waiting.after(o) {
		o.due = time.Now()
	}
	if in.expire(&in.waiting); len(s.loop.watchers) != 0 || in.buffered != 0 {
		t.Errorf("%d connections, held %d", len(s.loop.watchers), in.buffered)
	}
	got, err := s.ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if b, err := io.ReadAll(got); err != nil || string(b) != sent {
		t.Errorf("got %q, %v", b, err)
	}
	got.Close()
	if b, err := io.ReadAll(half); err != nil || len(b) > 0 {
		t.Errorf("got %q, %v", b, err)
	}
}

// TestOneTimer: the connections of a loop share one timer, which goes on for as long as any of them
// waits.
func TestOneTimer(t *testing.T) {
	s := newSite(t, func(s *http.Server) { s.ReadHeaderTimeout = time.Hour })
	s.open()
	s.open()
	in := s.ln.intakes[s.loop]
	expire := func() {
		f := s.loop.timers[0]
		s.loop.timers = nil
		f()
	}
	if len(s.loop.timers) != 1 {
		t.Fatalf("%d timers", len(s.loop.timers))
	}
	in.waiting.oldest.due = time.Now()
	if expire(); len(s.loop.watchers) != 1 || len(s.loop.timers) != 1 {
		t.Errorf("%d connections, %d timers", len(s.loop.watchers), len(s.loop.timers))
	}
	in.waiting.oldest.due = time.Now()
	if expire(); len(s.loop.watchers) != 0 || len(s.loop.timers) != 0 || in.waiting.timer != nil {
		t.Errorf("%d connections, %d timers", len(s.loop.watchers), len(s.loop.timers))
	}
	if s.open(); len(s.loop.timers) != 1 {
		t.Errorf("%d timers", len(s.loop.timers))
	}
}

// TestExpireInBatches: silent clients that came at once do not take the loop's time
// at once.
func TestExpireInBatches(t *testing.T) {
	s := newSite(t, func(s *http.Server) { s.ReadHeaderTimeout = time.Hour })
	const clients = 2*expireBatch + 10
	for range clients {
		s.open()
	}
	in := s.ln.intakes[s.loop]
	for o := in.waiting.oldest; o != nil; o = in.waiting.after(o) {
		o.due = time.Now()
	}
	f := s.loop.timers[0]
	s.loop.timers = nil
	f()
	left := clients - expireBatch
	if len(s.loop.watchers) != left || len(s.loop.posts) != 1 {
		t.Fatalf("%d connections, %d posts", len(s.loop.watchers), len(s.loop.posts))
	}
	in.arm(&in.waiting) // what a new connection does
	for ; left > 0; left -= expireBatch {
		if len(s.loop.watchers) != left || len(s.loop.timers) != 0 {
			t.Errorf("%d connections, %d timers", len(s.loop.watchers), len(s.loop.timers))
		}
		(<-s.loop.posts)()
	}
	if s.open(); len(s.loop.watchers) != 1 || len(s.loop.posts) != 0 || len(s.loop.timers) != 1 {
		t.Errorf("%d connections, %d posts, %d timers", len(s.loop.watchers), len(s.loop.posts), len(s.loop.timers))
	}
}
