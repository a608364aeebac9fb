//go:build linux

package load

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/internal/poll"
)

func TestParseAddress(t *testing.T) {
	for _, text := range []string{"", "127.0.0.1", "localhost:80", "[::1]:80", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1"} {
		if a, err := parseNode(text); err == nil {
			t.Errorf("%q is read as %v", text, a)
		}
	}
}

func listen(t *testing.T) (net.Listener, address) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	to, err := parseNode(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return listener, to
}

// TestDial: a connection comes from its source, and what fails is told.
func TestDial(t *testing.T) {
	listener, to := listen(t)
	source, err := parse("127.9.8.7", 0)
	if err != nil {
		t.Fatal(err)
	}
	fd, _, errno := dial(&source, &to)
	if errno != 0 {
		t.Fatal(errno)
	}
	c, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if ip := c.RemoteAddr().(*net.TCPAddr).IP.String(); ip != "127.9.8.7" {
		t.Errorf("it comes from %s", ip)
	}
	hangUp(int32(fd))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("%d bytes, %v after the end", n, err)
	}
	foreign, err := parse("192.0.2.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	fd, during, errno := dial(&foreign, &to)
	if during != "bind" || errno != syscall.EADDRNOTAVAIL || fd < 0 {
		t.Errorf("%d %s %v from an address of another machine", fd, during, errno)
	}
	hangUp(int32(fd))
}

// TestReturn: cut connections come back after a pause that grows with each failure, within the window.
func TestReturn(t *testing.T) {
	_, to := listen(t)
	poller, err := poll.New()
	if err != nil {
		t.Fatal(err)
	}
	defer poller.Close()
	n := node{address: to, requests: [2][]byte{[]byte("GET"), []byte("GET")}}
	l := &loop{plan: &plan.Plan{Conns: 50}, nodes: []node{n, n}, conns: make([]conn, 50), poller: poller, window: 3}
	l.report.Refusals = map[string]uint64{}
	now := time.Now()
	for i := range l.conns {
		c := &l.conns[i]
		*c = conn{loop: l, fd: -1, tries: uint8(i % 10)}
		before := len(l.waiting)
		l.later(c)
		if len(l.waiting) != before+1 || c.tries != uint8(i%10)+1 {
			t.Fatalf("%d wait, %d tries", len(l.waiting), c.tries)
		}
	}
	for _, w := range l.waiting {
		most := min(mostPause, leastPause+leastPause<<(w.conn.tries-1))
		if pause := time.Duration(w.at - now.UnixNano()); pause < leastPause || pause > most+time.Second {
			t.Errorf("a pause of %v after %d failures", pause, w.conn.tries)
		}
	}
	l.due(now)
	if l.report.Opening != 0 {
		t.Errorf("%d came before their time", l.report.Opening)
	}
	for i := range l.waiting {
		l.waiting[i].at = 0 // the time is over for all of them
	}
	for left := 50; left > 0; {
		l.due(now)
		if l.report.Opening != min(3, left) || l.report.Waiting != left-l.report.Opening || l.pause(now) == 0 {
			t.Fatalf("%d are on their way, %d wait, the next look is in %v", l.report.Opening, l.report.Waiting, l.pause(now))
		}
		for i := range l.conns {
			if c := &l.conns[i]; c.state != closed && c.state != live {
				c.state = live // as if it had been subscribed
				l.report.Opening--
				left--
			}
		}
	}
}
