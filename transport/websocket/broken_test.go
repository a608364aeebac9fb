package websocket

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// What a client sent before its connection broke is handed over, also what lay unparsed
// because of a pause, and what the kernel held.
func TestMessagesBeforeTheBreak(t *testing.T) {
	s := newServer(t, Config{})
	s.prepare = func(p *testPeer) error {
		p.OnReceive = func(msg []byte) {
			p.Inside.Pause(true)
			p.Messages <- string(msg)
		}
		return nil
	}
	for range 20 {
		c, p := s.connect("/", nil)
		c.send(text("first"), text("second"), text("third"))
		p.Message()
		c.send(text("fourth"), text("fifth"))
		_ = c.nc.(*net.TCPConn).SetLinger(0)
		c.nc.Close() // resets it
		for {        // the goroutine that reads does not hear of it during a pause
			if _, err := p.Conn.Write(frames("x")); err != nil {
				break
			}
		}
		for _, want := range []string{"second", "third", "fourth", "fifth"} {
			if got := p.Message(); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		if err := p.ClosedWith(); err == nil {
			t.Error("it was not lost")
		}
	}
}

// Of pings that are read together, the last one is answered.
func TestPingsInARow(t *testing.T) {
	s := newServer(t, Config{})
	c, p := s.connect("/", nil)
	const pings = 1000
	var flood []frame
	for i := range pings {
		flood = append(flood, frame{Fin: true, Op: rfc6455.OpPing, Payload: fmt.Sprint(i)})
	}
	c.send(append(flood, text("behind"))...)
	p.Message()
	pongs, last := 0, fmt.Sprint(pings-1)
	for {
		f, err := c.read()
		if err != nil || f.Op != rfc6455.OpPong {
			t.Fatalf("got %v, %v", f, err)
		}
		if pongs++; f.Payload == last {
			break
		}
	}
	if pongs > pings/10 {
		t.Errorf("%d pongs for %d pings", pongs, pings)
	}
	c.send(frame{Fin: true, Op: rfc6455.OpPing})
	c.expect(frame{Fin: true, Op: rfc6455.OpPong})
}

// A panic on a connection's goroutine ends this connection, and its peer hears why.
func TestPanicOnAGoroutine(t *testing.T) {
	if onLoops {
		t.Skip("there, the loop contains it")
	}
	s := newServer(t, Config{})
	s.prepare = func(p *testPeer) error {
		p.OnReceive = func([]byte) {
			panic("no message")
		}
		return nil
	}
	c, p := s.connect("/", nil)
	c.send(text("x"))
	d := protocol.DisconnectServerError
	c.expect(closeFr(uint16(d.Code), d.Reason))
	var panicked *transport.Panic
	if err := p.ClosedWith(); !errors.As(err, &panicked) || panicked.Reason != "no message" || len(panicked.Stack) == 0 {
		t.Errorf("Closed(%v)", err)
	}
}
