package app

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// cheapClient is a JSON client over WebSocket that has a socket and a small buffer: no goroutine,
// and nothing that lives as long as the test. It is for tests with thousands of clients. Its
// methods are for one goroutine at a time.
type cheapClient struct {
	nc     net.Conn
	in     *bufio.Reader
	last   uint32
	rest   []byte               // messages of the last frame that are not looked at yet
	pushes func(*protocol.Push) // nil: they are skipped
}

// closedBy is the error of a connection that the server has closed.
type closedBy struct{ code int }

func (e closedBy) Error() string { return fmt.Sprintf("disconnect %d", e.code) }

// dialCheap opens a connection. Whoever opens it has to close it.
func (s *testServer) dialCheap() (*cheapClient, error) {
	nc, err := net.Dial("tcp", s.app.Addr("external"))
	if err != nil {
		return nil, err
	}
	c := &cheapClient{nc: nc, in: bufio.NewReaderSize(nc, 512)}
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	_, _ = nc.Write([]byte(churnRequest))
	if err := c.handshake(); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// handshake reads the answer to the request.
func (c *cheapClient) handshake() error {
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 101 ")):
			return fmt.Errorf("handshake: %s", line)
		case len(line) == 2:
			return nil
		}
	}
}

func (c *cheapClient) close() { c.nc.Close() }

// start sends a command, which is written without its ID and braces, and returns the ID.
func (c *cheapClient) start(command string) uint32 {
	c.last++
	_ = c.nc.SetDeadline(time.Now().Add(time.Minute))
	_, _ = c.nc.Write(masked(0x1, fmt.Sprintf(`{"id":%d,%s}`, c.last, command))) // reading fails, too, if this does
	return c.last
}

// await returns the reply to a command: nil, a *protocol.Error, a closedBy or an error of the
// connection.
func (c *cheapClient) await(id uint32) error {
	for {
		r, err := c.next()
		switch {
		case err != nil:
			return err
		case r.ID == id && r.Error != nil:
			return r.Error
		case r.ID == id:
			return nil
		case r.Push != nil && c.pushes != nil:
			c.pushes(r.Push)
		}
	}
}

// call sends a command and waits for its reply.
func (c *cheapClient) call(command string) error { return c.await(c.start(command)) }

// next returns the next message, and answers pings.
func (c *cheapClient) next() (*protocol.Reply, error) {
	for {
		if len(bytes.TrimSpace(c.rest)) == 0 {
			if err := c.frame(); err != nil {
				return nil, err
			}
		}
		line, rest, _ := bytes.Cut(c.rest, []byte("\n"))
		c.rest = rest
		if string(line) == "{}" {
			_, _ = c.nc.Write(masked(0x1, "{}"))
			continue
		}
		r := new(protocol.Reply)
		return r, r.UnmarshalJSON(line)
	}
}

// frame reads a frame of the server.
func (c *cheapClient) frame() error {
	var head [2]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return err
	}
	size := uint64(head[1])
	switch size {
	case 126:
		var n [2]byte
		if _, err := io.ReadFull(c.in, n[:]); err != nil {
			return err
		}
		size = uint64(binary.BigEndian.Uint16(n[:]))
	case 127:
		var n [8]byte
		if _, err := io.ReadFull(c.in, n[:]); err != nil {
			return err
		}
		size = binary.BigEndian.Uint64(n[:])
	}
	c.rest = make([]byte, size)
	if _, err := io.ReadFull(c.in, c.rest); err != nil {
		return err
	}
	if head[0]&0xF == 0x8 {
		code := 1005
		if len(c.rest) >= 2 {
			code = int(binary.BigEndian.Uint16(c.rest))
		}
		return closedBy{code}
	}
	return nil
}
