package front

import (
	"net"
	"strings"
	"testing"
)

// TestBodiesAreBounded: clients that send much of a body and no end cannot make the server hold more
// than the limit.
func TestBodiesAreBounded(t *testing.T) {
	s := newSiteOf(t, nil, streams)
	part := post(maxBody, strings.Repeat("x", 60000))
	for range maxBuffered/(64<<10) + 10 {
		s.send(s.open(), part)
	}
	if in := s.ln.intakes[s.loop]; in.buffered > maxBuffered || in.buffered < maxBuffered/2 {
		t.Errorf("holds %d bytes", in.buffered)
	}
	nc := s.open()
	s.send(nc, post(2, "{}"))
	s.switched(nc)
}

// TestTrickle: the head of a request that comes byte by byte is searched once, and its bytes count as
// held until they are gone.
func TestTrickle(t *testing.T) {
	s := newSite(t, nil)
	nc := s.open()
	in := s.ln.intakes[s.loop]
	sent := request("A: " + strings.Repeat("x", 3000) + "\r\n")
	for i := range len(sent) {
		s.send(nc, sent[i:i+1])
		if i == 2000 && (in.buffered < 2000 || in.waiting.oldest.scanned != 2001) {
			t.Errorf("held %d, scanned %d", in.buffered, in.waiting.oldest.scanned)
		}
	}
	s.switched(nc)
	if in.buffered != 0 || in.waiting.oldest != nil || in.partial.newest != nil {
		t.Errorf("held %d, %v, %v", in.buffered, in.waiting, in.partial)
	}
}

// TestTricklersAreBounded: clients that send much of a head and no end cannot make
// the server hold more than the limit.
func TestTricklersAreBounded(t *testing.T) {
	s := newSite(t, nil)
	part := strings.TrimSuffix(request("A: "+strings.Repeat("x", 60000)+"\r\n"), "\r\n")
	var conns []net.Conn
	for range maxBuffered/(64<<10) + 10 {
		conns = append(conns, s.open())
		s.send(conns[len(conns)-1], part)
	}
	in := s.ln.intakes[s.loop]
	if in.buffered > maxBuffered || in.buffered < maxBuffered/2 {
		t.Errorf("holds %d bytes", in.buffered)
	}
	nc := s.open() // the usual client is served all the same
	s.send(nc, request(""))
	s.switched(nc)
	for _, nc := range conns {
		nc.Close()
	}
	s.loop.ready() // reads that they have ended, and hands them over to net/http
	if in.buffered != 0 {
		t.Errorf("holds %d bytes of connections that are gone", in.buffered)
	}
}

// TestOldestPartFirst: when the heads that others have begun fill the limit, a request that comes in two
// parts is served all the same: the heads that were begun first make room. Clients that have sent nothing
// stay.
func TestOldestPartFirst(t *testing.T) {
	s := newSite(t, nil)
	silent := s.open()
	part := strings.TrimSuffix(request("A: "+strings.Repeat("x", 32<<10-200)+"\r\n"), "\r\n")
	var conns []net.Conn
	for i := range maxBuffered/(32<<10) + 2 {
		conns = append(conns, s.open())
		if i != 1 {
			s.send(conns[i], part)
		}
	}
	s.send(conns[1], part) // an old connection that begins to send late
	in := s.ln.intakes[s.loop]
	gone := func(nc net.Conn) bool {
		for o := in.waiting.oldest; o != nil; o = in.waiting.after(o) {
			if o.remote.String() == nc.LocalAddr().String() {
				return false
			}
		}
		return true
	}
	first := 0
	for ; gone(conns[first]); first += 2 - first%2 { // 0, 2, 3, 4, ...
	}
	if first == 0 || first > 10 || gone(conns[1]) {
		t.Errorf("the first one that is left is %d", first)
	}
	nc := s.open()
	head := request("")
	s.send(nc, head[:40])
	s.send(nc, head[40:])
	s.switched(nc)
	if gone(silent) || gone(conns[1]) {
		t.Error("a client that has sent nothing, or began late, was closed")
	}
	if in.buffered > maxBuffered || in.buffered < maxBuffered-128<<10 {
		t.Errorf("holds %d bytes", in.buffered)
	}
}
