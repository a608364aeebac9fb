package app

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
)

// cheapClient is a JSON client over WebSocket that has a socket and a small buffer: no goroutine,
// and nothing that lives as long as the test. It is for tests with thousands of clients. Its
// methods are for one goroutine at a time.
type cheapClient struct {
	nc     net.Conn
	socket *wsclient.Conn
	last   uint32
	rest   []byte               // messages of the last frame that are not looked at yet
	pushes func(*protocol.Push) // nil: they are skipped
}

// dialCheap opens a connection. Whoever opens it has to close it.
func (s *testServer) dialCheap() (*cheapClient, error) {
	nc, err := net.Dial("tcp", s.app.Addr("external"))
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(nc, 512)
	_ = nc.SetDeadline(time.Now().Add(wait.Limit))
	_, _ = nc.Write([]byte(churnRequest))
	if err := handshake(in); err != nil {
		nc.Close()
		return nil, err
	}
	return &cheapClient{nc: nc, socket: wsclient.Over(struct {
		io.Reader
		io.WriteCloser
	}{in, nc}, false, 64<<20)}, nil
}

// handshake reads the answer to the request.
func handshake(in *bufio.Reader) error {
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
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
	_ = c.nc.SetDeadline(time.Now().Add(wait.Limit))
	_ = c.socket.Write(fmt.Appendf(nil, `{"id":%d,%s}`, c.last, command)) // reading fails, too, if this does
	return c.last
}

// await returns the reply to a command: nil, a *protocol.Error, a *wsclient.CloseError or an
// error of the connection.
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
			message, err := c.socket.Next()
			if err != nil {
				return nil, err
			}
			c.rest = message
		}
		line, rest, _ := bytes.Cut(c.rest, []byte("\n"))
		c.rest = rest
		if string(line) == "{}" {
			_ = c.socket.Write(line)
			continue
		}
		r := new(protocol.Reply)
		return r, r.UnmarshalJSON(line)
	}
}
