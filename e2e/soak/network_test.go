package soak

import (
	"bufio"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
)

// echo is a network on which some messages of a server arrive twice, as bytes of TCP cannot. Pings do not: they are all
// alike, and a server takes one pong for each.
type echo struct {
	listener net.Listener
	target   string
	twice    atomic.Int64 // how many messages did so far
}

// oneIn: one of so many messages arrives twice.
const oneIn = 50

func newEcho(target string) (*echo, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &echo{listener: l, target: target}
	go e.accept()
	return e, nil
}

func (e *echo) addr() string { return e.listener.Addr().String() }

func (e *echo) accept() {
	for {
		c, err := e.listener.Accept()
		if err != nil {
			return // closed
		}
		go e.relay(c)
	}
}

func (e *echo) relay(client net.Conn) {
	server, err := net.Dial("tcp", e.target)
	if err != nil {
		_ = client.Close()
		return
	}
	end := func() {
		_ = client.Close()
		_ = server.Close()
	}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		_, _ = io.Copy(server, client) // either side may end the connection
		end()
	})
	pumps.Go(func() {
		e.answers(client, server)
		end()
	})
	pumps.Wait()
}

func (e *echo) answers(client io.Writer, server net.Conn) {
	r := bufio.NewReader(server)
	if isWebSocket, err := e.head(client, r); err != nil || !isWebSocket {
		_, _ = io.Copy(client, r)
		return
	}
	for {
		frame, isMessage, err := readFrame(r)
		if err != nil {
			return
		}
		if isMessage && rand.IntN(oneIn) == 0 {
			e.twice.Add(1)
			frame = append(frame, frame...)
		}
		if _, err := client.Write(frame); err != nil {
			return
		}
	}
}

// head passes on the head of the first response.
func (e *echo) head(client io.Writer, r *bufio.Reader) (isWebSocket bool, err error) {
	for first := true; ; first = false {
		line, err := r.ReadString('\n')
		if err != nil {
			return false, err
		}
		if _, err := io.WriteString(client, line); err != nil {
			return false, err
		}
		if first {
			isWebSocket = len(line) > 12 && line[9:12] == "101"
		}
		if line == "\r\n" {
			return isWebSocket, nil
		}
	}
}

// ping is the most bytes that a ping has: {} and a line feed in JSON, one byte in Protobuf.
const ping = 3

// readFrame reads a frame (RFC 6455, 5.2) as it stands. isMessage: it is a whole message other than a ping.
func readFrame(r *bufio.Reader) (frame []byte, isMessage bool, err error) {
	head := make([]byte, 2, 10)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, false, err
	}
	size := uint64(head[1] & 0x7f)
	if more := map[uint64]int{126: 2, 127: 8}[size]; more > 0 {
		head = head[:2+more]
		if _, err := io.ReadFull(r, head[2:]); err != nil {
			return nil, false, err
		}
		var wide [8]byte
		copy(wide[8-more:], head[2:])
		size = binary.BigEndian.Uint64(wide[:])
	}
	frame = make([]byte, len(head)+int(size))
	copy(frame, head)
	_, err = io.ReadFull(r, frame[len(head):])
	opcode := head[0] & 0xf
	return frame, head[0]&0x80 != 0 && (opcode == 1 || opcode == 2) && size > ping, err
}
