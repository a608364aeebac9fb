//go:build unix

package websocket

import (
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// pairs opens connections whose clients read and forget.
func pairs(b *testing.B, n int) []transport.Conn {
	s := newServer(b, Config{})
	var conns []transport.Conn
	for range n {
		c, p := s.connect("/", nil)
		_ = c.nc.SetDeadline(time.Time{})
		conns = append(conns, p.Conn)
		go discard(c.nc)
		b.Cleanup(func() { p.Conn.Close(protocol.DisconnectConnectionClosed, nil); <-p.Ended })
	}
	return conns
}

func discard(c net.Conn) {
	_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 4096))
}

// BenchmarkWrite writes to 1,000 connections in turn. Compare with
// BenchmarkBareWrite to see what the transport adds to the system call.
func BenchmarkWrite(b *testing.B) {
	for _, count := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("frames=%d", count), func(b *testing.B) {
			conns := pairs(b, 1000)
			var list [][]byte
			for range count {
				list = append(list, frames(testText(200))...)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				_, _ = conns[i%len(conns)].Write(list)
				i++
			}
		})
	}
}

func BenchmarkBareWrite(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var fds []int
	for range 1000 {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer client.Close()
		server, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		defer server.Close()
		go discard(client)
		raw, _ := server.(*net.TCPConn).SyscallConn()
		_ = raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) })
	}
	p := frames(testText(200))[0]
	i := 0
	for b.Loop() {
		_, _ = syscall.Write(fds[i%len(fds)], p)
		i++
	}
}

// BenchmarkReceive receives messages of 100 bytes, 16 in a read.
func BenchmarkReceive(b *testing.B) {
	const batch = 16
	s := newServer(b, Config{})
	done := make(chan struct{}, 1)
	left := batch
	s.prepare = func(p *testPeer) error {
		p.OnReceive = func([]byte) {
			if left--; left == 0 {
				left = batch
				done <- struct{}{}
			}
		}
		return nil
	}
	c, p := s.connect("/", nil)
	_ = c.nc.SetDeadline(time.Time{})
	var list []frame
	for range batch {
		list = append(list, text(testText(100)))
	}
	data := masked(list...)
	b.ReportAllocs()
	for b.Loop() {
		c.raw(data)
		<-done
	}
	c.nc.Close()
	<-p.Ended
}
