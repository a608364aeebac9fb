package front

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/transport"
)

var _ transport.Watcher = (*loopConn)(nil)

// TestSplit: it does not matter where the bytes of a request, and of what follows
// at once, are split.
func TestSplit(t *testing.T) {
	s := newSite(t, nil)
	head := request("")
	for i := range len(head) {
		nc := s.open()
		s.send(nc, head[:i])
		s.send(nc, head[i:]+"early")
		got := s.switched(nc)
		if got.early != "early" || got.path != "/ws" || got.remote != nc.LocalAddr().String() {
			t.Fatalf("split at %d: got %+v", i, got)
		}
	}
	if len(s.loop.watchers) != 0 {
		t.Errorf("%d watchers are left", len(s.loop.watchers))
	}
}

// TestBodySplit: it does not matter where a request with a body is split.
func TestBodySplit(t *testing.T) {
	s := newSiteOf(t, nil, streams)
	whole := post(5, "hello")
	for i := range len(whole) {
		nc := s.open()
		s.send(nc, whole[:i])
		s.send(nc, whole[i:]+"early")
		if got := s.switched(nc); got.body != "hello" || got.early != "early" || got.path != "/stream" {
			t.Fatalf("split at %d: got %+v", i, got)
		}
	}
	nc := s.open()
	for i := range len(whole) {
		s.send(nc, whole[i:i+1])
	}
	if got := s.switched(nc); got.body != "hello" || got.early != "" {
		t.Errorf("got %+v", got)
	}
	if in := s.ln.intakes[s.loop]; in.buffered != 0 || in.waiting.oldest != nil || len(s.loop.watchers) != 0 {
		t.Errorf("held %d, %v, %d watchers", in.buffered, in.waiting, len(s.loop.watchers))
	}
	large := strings.Repeat("x", maxBody)
	nc = s.open()
	s.send(nc, post(maxBody, large[:1000]))
	s.send(nc, large[1000:])
	s.loop.ready()
	if got := s.switched(nc); got.body != large {
		t.Errorf("got %d bytes", len(got.body))
	}
}

// TestForeignBodies: net/http gets requests whose body is too large, or of unknown length, as soon
// as their head is complete.
func TestForeignBodies(t *testing.T) {
	s := newSiteOf(t, nil, streams)
	for _, sent := range []string{
		post(maxBody+1, ""), strings.Replace(post(5, ""), "Content-Length: 5", "A: b", 1),
		strings.Replace(post(5, ""), "Content-Length: 5", "Transfer-Encoding: chunked", 1),
		strings.Replace(post(5, ""), "Host: a", "Host: a\r\nExpect: 100-continue", 1),
	} {
		nc := s.open()
		if s.send(nc, sent); len(s.loop.watchers) != 0 {
			t.Fatalf("%q was not handed over", sent)
		}
		got, err := s.ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got.Close()
	}
}

// TestForeignEarly: bytes that cannot become a request for the loop are handed over with the first byte
// that shows it.
func TestForeignEarly(t *testing.T) {
	s := newSite(t, nil)
	for _, sent := range []string{"P", "GET /wt", "GET /ws/", "GET  ", "\x16"} {
		nc := s.open()
		s.send(nc, sent[:len(sent)-1])
		if len(s.loop.watchers) != 1 {
			t.Errorf("%q was handed over too early", sent)
		}
		s.send(nc, sent[len(sent)-1:])
		if len(s.loop.watchers) != 0 {
			t.Fatalf("%q was not handed over", sent)
		}
		got, err := s.ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
		var b bytes.Buffer // by WriteTo
		if _, err := io.Copy(&b, got); err != nil || b.String() != sent {
			t.Errorf("got %q, %v, want %q", b.String(), err, sent)
		}
		got.Close()
	}
}
