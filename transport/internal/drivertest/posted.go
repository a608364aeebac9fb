package drivertest

import (
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// OnLoop returns a connection of a loop for other goroutines. Its methods return when the loop has carried them out.
func OnLoop(l transport.Loop, c transport.Conn) transport.Conn { return posted{l, c} }

type posted struct {
	loop transport.Loop
	conn transport.Conn
}

func (p posted) do(f func()) {
	done := make(chan struct{})
	if p.loop.Post(func() { f(); close(done) }) {
		<-done
	}
}

func (p posted) Write(frames [][]byte) (n int, err error) {
	p.do(func() { n, err = p.conn.Write(frames) })
	return n, err
}

func (p posted) Close(d protocol.Disconnect, frames [][]byte) {
	p.do(func() { p.conn.Close(d, frames) })
}

func (p posted) Pause(pause bool) { p.do(func() { p.conn.Pause(pause) }) }
